"""Searches of a new process, before and after kernels are compiled on the machine: how long does the slowest one wait?

``python -m benchmarks.first_search ITEMS QUERIES THREADS SECONDS`` asks so many queries a call in this process until
kernels answer, at most for so long, and prints a row as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import Row, Table, print_row

HEADING = "First searches of a process"
_ROOT = Path(__file__).parents[1]


def measure(items: int, queries: int, threads: int, seconds: float) -> Table:
    """One query a call, and ``queries`` a call: in a process that finds no compiled kernels, then in one that does."""
    rows: list[Row] = []
    for asked in (1, queries):
        with tempfile.TemporaryDirectory() as cache:
            for when in ("first time on the machine", "later"):
                rows.append({"process": when, **_in_a_process(cache, items, asked, threads, seconds)})
                print_row("search", rows[-1])
    return Table(
        HEADING,
        "64-bit uniform codes, 10 nearest. The same call again and again, until compiled loops answer: they are "
        "loaded, or compiled the first time on a machine, while numpy answers. Import is that of the index alone.",
        rows,
    )


def _in_a_process(cache: str, *numbers: float) -> Row:
    command = [sys.executable, "-m", "benchmarks.first_search", *map(str, numbers)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    row: Row = json.loads(done.stdout)
    return row


def _search(items: int, queries: int, threads: int, seconds: float) -> Row:
    begun = time.perf_counter()
    from scdh.index import HammingIndex, set_threads

    imported = time.perf_counter() - begun
    from benchmarks.made_up import uniform
    from scdh.index.search import scan

    set_threads(threads)
    index, asked = HammingIndex(uniform(items, 64, seed=2)), uniform(queries, 64, seed=3)
    words = index._segments[0].words
    spent: list[float] = []
    begun = time.perf_counter()
    while not scan.is_loaded("nearest", words) and time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        index.search(asked, 10, by="scan")
        spent.append(time.perf_counter() - start)
    waited = time.perf_counter() - begun
    start = time.perf_counter()
    index.search(asked, 10, by="scan")
    return {
        "items": items,
        "queries a call": queries,
        "import, s": imported,
        "first call, ms": 1e3 * spent[0],
        "slowest call, ms": 1e3 * max(spent),
        "calls before kernels": len(spent),
        "kernels after, s": waited,
        "call with kernels, ms": 1e3 * (time.perf_counter() - start),
    }


if __name__ == "__main__":
    print(json.dumps(_search(*map(int, sys.argv[1:4]), float(sys.argv[4]))))
