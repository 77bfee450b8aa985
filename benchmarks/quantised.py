"""Search by a product quantiser (DQN's distance): ours against ``faiss.IndexPQ`` with the same codebooks and codes."""

from dataclasses import dataclass

import faiss
import numpy as np

from benchmarks.agreement import in_order, same_values
from benchmarks.report import SECTIONS
from benchmarks.timing import Row, Table, print_row, take_turns
from scdh.codes import Codes
from scdh.index import HammingIndex, set_threads
from scdh.index.byte_tables import BYTE_VALUES
from scdh.index.search.warming import load_table_loop

HEADING = SECTIONS["quantised"]
_SLICE = 25  # numbers of z for each byte: DQN's 300 for 96 bits

_LARGE = 100_000  # items from which the compiled loop is timed, not numpy


@dataclass(frozen=True)
class Plan:
    items: int = 1_000_000
    bits: tuple[int, ...] = (16, 32, 48, 64, 128)
    queries: int = 100
    k: int = 10
    turns: int = 15


QUICK = Plan(items=100_000, bits=(32, 48), turns=3)


def measure(plan: Plan, threads: int) -> list[Table]:
    faiss.omp_set_num_threads(threads)
    set_threads(threads)
    about = (
        "Distance = minus the inner product of the query's real vector with what a code stands for, exact, by "
        "`HammingIndex.search(…, byte_tables=…)`; making the tables is counted on both sides. Rival: `faiss.IndexPQ` "
        "by inner product, with its codebooks and codes taken over, so that distances agree."
    )
    return [Table(HEADING, about, [_compare(plan, bits) for bits in plan.bits])]


def _compare(plan: Plan, bits: int) -> Row:
    parts = bits // 8
    rng = np.random.default_rng(13)
    rival = faiss.IndexPQ(parts * _SLICE, parts, 8, faiss.METRIC_INNER_PRODUCT)
    # Codes are drawn, and words are not fitted: the time of a search does not depend on what they mean.
    words = rng.normal(size=(parts, BYTE_VALUES, _SLICE)).astype(np.float32)
    packed = rng.integers(0, 256, (plan.items, parts), dtype=np.uint8)
    faiss.copy_array_to_vector(words.ravel(), rival.pq.centroids)
    rival.is_trained = True
    faiss.copy_array_to_vector(packed.ravel(), rival.codes)
    rival.ntotal = plan.items
    index, z = HammingIndex(Codes(packed, bits)), rng.normal(size=(plan.queries, parts * _SLICE)).astype(np.float32)
    asked, k = Codes(packed[: plan.queries], bits), min(plan.k, plan.items)

    def tables(rows: slice) -> np.ndarray:
        slices = z[rows].reshape(-1, parts, _SLICE).transpose(1, 0, 2)
        return -(slices @ words.transpose(0, 2, 1)).transpose(1, 0, 2)

    if plan.items >= _LARGE:
        load_table_loop(bits)
    hits = index.search(asked, k, byte_tables=tables)
    in_order(hits)
    products, _ids = rival.search(z, k)
    same_values(hits.distances / bits, -products.astype(np.float64) / bits)
    times = take_turns(
        {
            "faiss": lambda _turn: rival.search(z, k),
            "scdh": lambda _turn: index.search(asked, k, byte_tables=tables),
        },
        most=plan.turns,
    )
    row: Row = {
        "items": plan.items,
        "bits": bits,
        "k": k,
        "queries": plan.queries,
        "faiss, ms": 1e3 * times["faiss"],
        "scdh, ms": 1e3 * times["scdh"],
        "times faster": times["faiss"] / times["scdh"],
        "scdh, G items/s": plan.items * plan.queries / times["scdh"] / 1e9,
    }
    print_row("quantised", row)
    return row
