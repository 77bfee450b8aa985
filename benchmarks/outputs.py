"""Ranking by the query's real outputs: ours against faiss' ranking by bits, and against a matrix product in numpy."""

import numpy as np

from benchmarks import faiss_rival
from benchmarks.agreement import same_values
from benchmarks.made_up import uniform
from benchmarks.timing import Row, Table, print_row, take_turns
from scdh.codes import Codes
from scdh.index import HammingIndex

HEADING = "Search by the query's real outputs"
_RIVAL_QUERIES = 20  # the product of a million items with more takes gigabytes


def measure(items: int, bits: tuple[int, ...], queries: int, k: int, turns: int) -> Table:
    rows = [_compare(items, length, queries, min(k, items), turns) for length in bits]
    return Table(
        HEADING,
        "Distance = the sum of the query's outputs |u| over the bits that differ, exact, by "
        "`HammingIndex.search(…, weights=abs(u))`. Rivals: `faiss.IndexBinaryFlat`, which ranks by bits alone, and "
        f"numpy: a float32 matrix product u·signs and `np.argpartition`, timed on {_RIVAL_QUERIES} queries and scaled. "
        "Our distances are those of the product.",
        rows,
    )


def _compare(items: int, bits: int, queries: int, k: int, turns: int) -> Row:
    database = uniform(items, bits, seed=11)
    u = np.random.default_rng(12).normal(size=(queries, bits)).astype(np.float32)
    codes, weights = Codes.from_signs(u), np.abs(u)
    ours, rival = HammingIndex(database), faiss_rival.flat(database, -(-bits // 8) * 8)
    padded = faiss_rival.padded(codes, -(-bits // 8) * 8)
    signs, few = database.signs().astype(np.float32), u[:_RIVAL_QUERIES]

    def by_product(_turn: int) -> np.ndarray:
        products = few @ signs.T
        nearest = np.argpartition(-products, k - 1, axis=1)[:, :k]
        return np.sort(-np.take_along_axis(products, nearest, axis=1), axis=1)

    hits = ours.search(codes, k, weights=weights, by="scan")
    # Σ |u| over differing bits = (Σ |u| − u·sign) / 2.
    expected = (weights[: len(few)].sum(axis=1, dtype=np.float64)[:, None] + by_product(0)) / 2
    same_values(hits.distances[: len(few)] / bits, expected / bits)
    way = faiss_rival.choose_way(rival, padded, k)
    times = take_turns(
        {
            "faiss": lambda _turn: rival.search(padded, k),
            "numpy": by_product,
            "scdh": lambda _turn: ours.search(codes, k, weights=weights),
        },
        most=turns,
    )
    numpy_time = times["numpy"] * queries / len(few)
    row: Row = {
        "items": items,
        "bits": bits,
        "k": k,
        "queries": queries,
        "faiss by": way,
        "faiss by bits, ms": 1e3 * times["faiss"],
        "numpy, ms": 1e3 * numpy_time,
        "scdh, ms": 1e3 * times["scdh"],
        "faster than faiss by bits": times["faiss"] / times["scdh"],
        "faster than numpy": numpy_time / times["scdh"],
    }
    print_row("search", row)
    return row
