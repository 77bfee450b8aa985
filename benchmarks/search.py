"""The k nearest by looking at every code: ours against ``faiss.IndexBinaryFlat``, both exact."""

from dataclasses import dataclass

import numpy as np

from benchmarks import faiss_rival, outputs
from benchmarks.agreement import in_order, same_nearest, true_distances
from benchmarks.made_up import clustered, uniform
from benchmarks.report import BATCH, SINGLE
from benchmarks.timing import Row, Table, one_at_a_time, print_row, take_turns
from benchmarks.warm import load_kernels
from scdh.codes import Codes
from scdh.index import HammingIndex, set_threads


@dataclass(frozen=True)
class Plan:
    """Slices through sizes × bits × k, as all of it would take an hour. Each bits comes with the length faiss gets:
    12 and 48 bits also with zeros up to a length that faiss is faster at."""

    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    bits: tuple[tuple[int, int], ...] = (
        (12, 16),
        (12, 32),
        (32, 32),
        (48, 48),
        (48, 64),
        (64, 64),
        (128, 128),
        (256, 256),
    )
    ks: tuple[int, ...] = (1, 10, 100)
    middle: int = 1_000_000  # the size at which bits and k vary
    queries: int = 500
    singles: int = 100
    turns: int = 25
    warm: bool = True


QUICK = Plan(
    sizes=(10_000, 100_000, 1_000_000),
    bits=((12, 16), (48, 48), (64, 64), (128, 128)),
    ks=(1, 100),
    queries=200,
    turns=3,
)


class Pair:
    """One database in both indexes."""

    def __init__(self, name: str, database: Codes, width: int | None = None) -> None:
        self.name, self.database = name, database
        self.width = width or -(-database.bits // 8) * 8
        self.ours, self.rival = HammingIndex(database), faiss_rival.flat(database, self.width)

    def many(self, queries: Codes, k: int, turns: int) -> Row:
        padded_queries = faiss_rival.padded(queries, self.width)
        self.check(queries, k)
        way = faiss_rival.choose_way(self.rival, padded_queries, k)
        times = take_turns(
            {
                "faiss": lambda _turn: self.rival.search(padded_queries, k),
                "scdh": lambda _turn: self.ours.search(queries, k, by="scan"),
            },
            most=turns,
            window=0.05,
        )
        pairs = len(self.database) * len(queries)
        row: Row = {
            "codes": self.name,
            "items": len(self.database),
            "bits": self.database.bits,
            "bits for faiss": self.width,
            "k": k,
            "queries": len(queries),
            "faiss by": way,
            "faiss, ms": 1e3 * times["faiss"],
            "scdh, ms": 1e3 * times["scdh"],
            "faiss, G distances/s": pairs / times["faiss"] / 1e9,
            "scdh, G distances/s": pairs / times["scdh"] / 1e9,
            "times faster": times["faiss"] / times["scdh"],
        }
        print_row("search", row)
        return row

    def one(self, queries: Codes, k: int, threads: int) -> Row:
        padded_queries = faiss_rival.padded(queries, self.width)
        singles = [queries[at] for at in range(len(queries))]
        self.check(queries, k)
        way = faiss_rival.choose_way(self.rival, padded_queries[:1], k)
        times = one_at_a_time(
            {
                "faiss": lambda at: self.rival.search(padded_queries[at : at + 1], k),
                "scdh": lambda at: self.ours.search(singles[at], k, by="scan"),
            },
            range(len(queries)),
        )
        row: Row = {
            "items": len(self.database),
            "bits": self.database.bits,
            "k": k,
            "threads": threads,
            "faiss by": way,
            "faiss, ms": 1e3 * times["faiss"],
            "scdh, ms": 1e3 * times["scdh"],
            "times faster": times["faiss"] / times["scdh"],
        }
        print_row("search", row)
        return row

    def check(self, queries: Codes, k: int) -> None:
        """Also the warm-up: the first call of both."""
        hits = self.ours.search(queries, k, by="scan")
        same_nearest(hits, *self.rival.search(faiss_rival.padded(queries, self.width), k))
        in_order(hits)
        true_distances(hits, queries, self.database)


def measure(plan: Plan, threads: int) -> list[Table]:
    _use(threads)
    batch, single = [], []
    for bits in sorted({bits for bits, _ in plan.bits} | {64} if plan.warm else ()):
        load_kernels(bits)

    largest = uniform(max(plan.sizes), 64, seed=2)
    queries = uniform(plan.queries, 64, seed=3)
    k = max(plan.ks)
    for size in plan.sizes:
        pair = Pair("uniform", largest[:size])
        batch.append(pair.many(queries, k, plan.turns))
        single.append(pair.one(uniform(plan.singles, 64, seed=4), 10, threads))
        if size == plan.middle:
            batch += [pair.many(queries, other, plan.turns) for other in plan.ks if other != k]
            # faiss shares out queries and not rows: one query is one thread's work there.
            _use(1)
            single.append(pair.one(uniform(plan.singles, 64, seed=4), 10, 1))
            _use(threads)
    del largest

    for bits, width in plan.bits:
        if (bits, width) != (64, 64):
            pair = Pair("uniform", uniform(plan.middle, bits, seed=5), width)
            batch.append(pair.many(uniform(plan.queries, bits, seed=6), k, plan.turns))

    rng, centres = np.random.default_rng(7), uniform(100, 64, seed=8)
    database = clustered(rng.integers(0, 100, plan.middle), centres, 3, seed=9)
    queries = clustered(rng.integers(0, 100, plan.queries), centres, 3, seed=10)
    batch.append(Pair("clustered", database).many(queries, k, plan.turns))

    return [
        Table(
            BATCH,
            "Rival: `faiss.IndexBinaryFlat`, with the faster of its two ways (a heap, or counting), and with codes "
            "padded to whole bytes; 12 and 48 bits also padded further, which is faster there. Ours is "
            '`HammingIndex.search(…, by="scan")`. Clustered codes: 100 centres, one bit in eight flipped. Both give '
            "the same distances, and the same ids nearer than the k-th; ours is ordered by (distance, id), and every "
            "distance was recomputed. Calls shorter than 50 ms are repeated for that long: after a pause, "
            "threads and processors take some milliseconds to wake up.",
            batch,
        ),
        Table(
            SINGLE,
            f"One call for one query, median over {plan.singles} different queries. faiss shares out queries over "
            "threads and not rows, so more threads do not help it here; the row with 1 thread is like for like.",
            single,
        ),
        outputs.measure(plan.middle, (12, 48, 64, 128), plan.queries, k, plan.turns),
    ]


def _use(threads: int) -> None:
    faiss_rival.set_threads(threads)
    set_threads(threads)
