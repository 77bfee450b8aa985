"""Exact search of 10⁹ codes on one machine: shards replayed one after the other through one process.

``python -m benchmarks.run --only scale`` writes one shard of codes to a file and searches it again and again, as so
many different shards; in between, other memory is read, so that no shard is found in the cache. One query takes the
time of reading memory, which is measured as well: numpy adds up the same words.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.made_up import uniform
from benchmarks.timing import Row, Table, print_row
from scdh.codes import Codes
from scdh.index import HammingIndex, set_threads

HEADING = "10⁹ codes in shards through one process"
_FLUSHED_BYTES = 256 << 20  # more than caches have
_MANY = 500  # queries whose time on all shards is minutes


@dataclass(frozen=True)
class Plan:
    items: int = 1_000_000_000
    shard: int = 50_000_000
    bits: int = 64
    queries: tuple[int, ...] = (1, 32, 1000)
    k: int = 10


QUICK = Plan(items=40_000_000, shard=10_000_000, queries=(1, 32))


def measure(plan: Plan, threads: int) -> list[Table]:
    """One row for each number of queries."""
    set_threads(threads)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shard.index"
        HammingIndex(uniform(plan.shard, plan.bits, seed=1)).save(file)
        start = time.perf_counter()
        index = HammingIndex.load(file)
        opened = time.perf_counter() - start
        index.warm_up()
        words, other = index._segments[0].words, np.ones(_FLUSHED_BYTES // 8, np.uint64)
        index.search(uniform(1, plan.bits, seed=2), plan.k, by="scan")  # checks the file
        bandwidth = words.nbytes / _seconds_to_read(words, other, 3)
        for count in plan.queries:
            queries = uniform(count, plan.bits, seed=3)
            total = plan.items // plan.shard
            times = [_search(index, queries, plan.k, other) for _ in range(total if count < _MANY else 2)]
            fastest = min(times) * total
            rows.append(
                {
                    "items": plan.items,
                    "bits": plan.bits,
                    "queries a call": count,
                    "shards replayed": len(times),
                    "s a call, as replayed": sum(times) * total / len(times),
                    "s a call, fastest shard": fastest,
                    "queries/s": count / fastest,
                    "G pairs/s": count * plan.items / fastest / 1e9,
                    "codes read, GB/s": plan.items * plan.bits / 8 / fastest / 1e9,
                    "numpy reads, GB/s": bandwidth / 1e9,
                    "opening a shard, ms": 1e3 * opened,
                }
            )
            print_row("scale", rows[-1])
    about = (
        f"One shard of {plan.shard:,} uniform codes, mapped from a file and searched as each of "
        f"{plan.items // plan.shard} shards, {plan.k} nearest, {threads} threads; other memory is read in between. For "
        f"{_MANY} queries and more, two shards are replayed and the time is scaled. Rates are those of the fastest "
        "shard, as other programs slow down the others. numpy adds up the same words with one thread."
    )
    return [Table(HEADING, about, rows)]


def _search(index: HammingIndex, queries: Codes, k: int, other: NDArray[np.uint64]) -> float:
    other.sum()
    start = time.perf_counter()
    index.search(queries, k, by="scan")
    return time.perf_counter() - start


def _seconds_to_read(words: NDArray[np.uint64], other: NDArray[np.uint64], turns: int) -> float:
    times = []
    for _ in range(turns):
        other.sum()
        start = time.perf_counter()
        words.sum()
        times.append(time.perf_counter() - start)
    return min(times)
