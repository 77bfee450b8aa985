"""First searches of a process, ours and those of faiss: before kernels are compiled on the machine, and afterwards.

``python -m benchmarks.first_search WHO ITEMS QUERIES THREADS SECONDS`` searches in this process, and prints a row as
JSON: "faiss" calls twice, "scdh" until kernels answer, at most for so long.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import Row, Table, print_row

HEADING = "First searches of a process"
_ROOT = Path(__file__).parents[1]
# When everything was imported, what is timed, and whether it has its kernels.
Searcher = tuple[float, Callable[[], object], Callable[[], bool]]


@dataclass(frozen=True)
class Plan:
    works: tuple[tuple[int, int], ...] = ((10_000, 1), (1_000_000, 500))  # items, queries a call
    turns: int = 5
    seconds: float = 10.0  # most that searches of a process are repeated for


QUICK = Plan(turns=1)


def measure(plan: Plan, threads: int) -> list[Table]:
    """For each work: a process that finds no compiled kernels; then processes that do and those of faiss, in turns."""
    rows: list[Row] = []
    for items, queries in plan.works:
        with tempfile.TemporaryDirectory() as cache:

            def process(who: str, work: tuple[int, int] = (items, queries), cache: str = cache) -> Row:
                return _in_a_process(cache, who, *map(str, (*work, threads, plan.seconds)))

            _add(rows, "scdh, first time on the machine", [process("scdh")])
            turns = [{who: process(who) for who in ("scdh", "faiss")} for _ in range(plan.turns)]
            for who in ("scdh", "faiss"):
                _add(rows, who, [turn[who] for turn in turns])
    about = (
        f"64-bit uniform codes, 10 nearest; medians of {plan.turns} processes, in turns with faiss.IndexBinaryFlat. "
        "The same call again and again, until compiled loops answer: they are loaded, or compiled the first time on a "
        f"machine, while numpy answers; for {plan.seconds:.0f} s at most. Import is that of the index with numpy."
    )
    return [Table(HEADING, about, rows)]


def _add(rows: list[Row], who: str, measured: list[Row]) -> None:
    columns = {name: statistics.median(row[name] for row in measured) for name in measured[0]}  # type: ignore[type-var]
    rows.append({"process": who, **columns})
    print_row("first", rows[-1])


def _in_a_process(cache: str, *arguments: str) -> Row:
    command = [sys.executable, "-m", "benchmarks.first_search", *arguments]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    row: Row = json.loads(done.stdout)
    return row


def _search(who: str, items: int, queries: int, threads: int, seconds: float) -> Row:
    begun = time.perf_counter()
    imported_at, search, is_ready = (_faiss if who == "faiss" else _scdh)(items, queries, threads)
    imported, spent = imported_at - begun, list[float]()
    begun = time.perf_counter()
    while not (spent and is_ready()) and time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        search()
        spent.append(time.perf_counter() - start)
    waited = time.perf_counter() - begun
    start = time.perf_counter()
    search()
    return {
        "items": items,
        "queries a call": queries,
        "import, s": imported,
        "first call, ms": 1e3 * spent[0],
        "slowest call, ms": 1e3 * max(spent),
        "calls before kernels": len(spent),
        "kernels after, s": waited,
        "a later call, ms": 1e3 * (time.perf_counter() - start),
    }


def _scdh(items: int, queries: int, threads: int) -> Searcher:
    from scdh.index import HammingIndex, set_threads

    imported = time.perf_counter()
    from benchmarks.made_up import uniform
    from scdh.index.search import scan

    set_threads(threads)
    index, asked = HammingIndex(uniform(items, 64, seed=2)), uniform(queries, 64, seed=3)
    words = index._segments[0].words
    return imported, lambda: index.search(asked, 10), lambda: scan.is_loaded("nearest", words)


def _faiss(items: int, queries: int, threads: int) -> Searcher:
    import faiss

    imported = time.perf_counter()
    from benchmarks.made_up import uniform

    faiss.omp_set_num_threads(threads)
    index, asked = faiss.IndexBinaryFlat(64), uniform(queries, 64, seed=3).packed
    index.add(uniform(items, 64, seed=2).packed)
    return imported, lambda: index.search(asked, 10), lambda: True


if __name__ == "__main__":
    print(json.dumps(_search(sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5]))))
