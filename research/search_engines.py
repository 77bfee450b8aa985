"""Search engines against the local index: load rate, queries per second, and the same answers.

    python -m research.search_engines postgresql://host/database/table lance:FOLDER/table milvus://host/collection

The codes are 200,000 of 48 bits near 1,000 centres, so that many are equal and lists end within ties.
"""

import sys
import time

import numpy as np

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.engines import engine_of
from scdh.index.items import Items

ROWS, BITS, QUERIES, K = 200_000, 48, 1_000, 10


def near_centres(rows: int, bits: int, centres: int, flip: float, seed: int) -> Codes:
    """Codes of random centres with some bits flipped; the same centres for every seed."""
    middle = np.random.default_rng(bits + centres).random((centres, bits)) < 0.5
    rng = np.random.default_rng(seed)
    return Codes.from_signs(middle[rng.integers(0, centres, rows)] ^ (rng.random((rows, bits)) < flip))


def main(addresses: list[str]) -> None:
    codes = near_centres(ROWS, BITS, 1000, 0.02, 0)
    queries = near_centres(QUERIES, BITS, 1000, 0.02, 1)
    local = HammingIndex(codes)
    local.warm_up()
    seconds = np.inf
    for _ in range(5):
        start = time.perf_counter()
        expected = local.search(queries, K)
        seconds = min(seconds, time.perf_counter() - start)
    wider = local.search(queries, K + 1)
    ties = int((wider.distances[:, K] == wider.distances[:, K - 1]).sum())
    print(f"{ROWS:,} codes of {BITS} bits, {len(np.unique(codes.packed, axis=0)):,} distinct")
    print(f"{QUERIES:,} queries, k = {K}; {ties:,} lists end within a tie")
    print(f"local index: {QUERIES / seconds:,.0f} queries/s")
    near = local.within(queries[:100], 3)
    items = Items([f"photos/{row:06}.jpg" for row in range(ROWS)], [[f"class {row % 100}"] for row in range(ROWS)])
    for address in addresses:
        with engine_of(address).create(address, BITS) as index:
            start = time.perf_counter()
            index.load(codes, items=items)
            loading = time.perf_counter() - start
            start = time.perf_counter()
            again = index.load(codes, items=items)
            comparing = time.perf_counter() - start
            index.search(queries[:5], K)
            start = time.perf_counter()
            found = index.search(queries, K)
            searching = time.perf_counter() - start
            start = time.perf_counter()
            for row in range(5):
                index.search(queries[row : row + 1], K)
            single = (time.perf_counter() - start) / 5
            close = index.within(queries[:100], 3)
            chosen = index.search(queries[:50], K, only=index.with_labels(["class 7"]))
            of_label = local.search(queries[:50], K, only=np.arange(7, ROWS, 100))
            same = {
                "ids": bool((found.ids == expected.ids).all()),
                "distances": bool((found.distances == expected.distances).all()),
                "within 3": bool((close.ids == near.ids).all()),
                "by label": bool((chosen.ids == of_label.ids).all()),
            }
            print(
                f"{index.ENGINE}: load {ROWS / loading:,.0f} codes/s, again {ROWS / comparing:,.0f}/s ({again} written)"
            )
            print(f"  {QUERIES / searching:,.0f} queries/s, {searching / seconds:,.0f} × the local time", end=", ")
            print(f"{1000 * single:.1f} ms for a single one; equal: {same}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
