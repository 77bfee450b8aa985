"""Indexes that do not look at every code, with the share of true neighbours that they find; the rival is our scan.

faiss' graph (HNSW) and inverted lists (IVF) over binary vectors, and usearch's exact search and graph if it is
installed. Recall counts distances: an item found is right if it is no farther than the true k-th nearest.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.made_up import clustered, uniform
from benchmarks.report import SECTIONS
from benchmarks.timing import Row, Table, print_row, take_turns
from scdh.codes import Codes
from scdh.index import HammingIndex, set_threads

HEADING = SECTIONS["approximate"]
Distances = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    items: int = 1_000_000
    queries: int = 500
    k: int = 10
    turns: int = 25


QUICK = Plan(items=100_000, queries=200, turns=3)


def measure(plan: Plan, threads: int) -> list[Table]:
    faiss.omp_set_num_threads(threads)
    set_threads(threads)
    items, rows = plan.items, list[Row]()
    for name in ("uniform", "clustered"):
        database, asked = _codes(name, items, plan.queries)
        ours = HammingIndex(database)
        for rival, build in _rivals(database, items, threads).items():
            rows.append({"codes": name, "items": items, "rival": rival, **_compare(ours, asked, plan, build)})
            print_row("search", rows[-1])
    missing = "" if find_spec("usearch") else " usearch is not installed here."
    table = Table(
        HEADING,
        "64-bit codes, as in the tables of exact search. Recall: the share of the items found that are no farther than "
        f"the true k-th nearest; building is not counted as search. Below 1 time faster, the rival is faster.{missing}",
        rows,
    )
    return [table]


def _compare(ours: HammingIndex, asked: Codes, plan: Plan, build: Callable[[], Callable[..., Distances]]) -> Row:
    k = plan.k
    start = time.perf_counter()
    search = build()
    built = time.perf_counter() - start  # next to nothing where the rival before it has the same index
    exact, found = ours.search(asked, k, by="scan").distances, search(asked.packed, k)
    times = take_turns(
        {
            "rival": lambda _turn: search(asked.packed, k),
            "scdh": lambda _turn: ours.search(asked, k, by="scan"),
        },
        most=plan.turns,
    )
    return {
        "queries": len(asked),
        "k": k,
        "built in, s": built,
        "recall": float(np.mean(found <= exact[:, -1:])),
        "rival, ms": 1e3 * times["rival"],
        "scdh exact, ms": 1e3 * times["scdh"],
        "scdh times faster": times["rival"] / times["scdh"],
    }


def _codes(name: str, items: int, queries: int) -> tuple[Codes, Codes]:
    if name == "uniform":
        return uniform(items, 64, seed=2), uniform(queries, 64, seed=3)
    rng, centres = np.random.default_rng(7), uniform(100, 64, seed=8)
    database = clustered(rng.integers(0, 100, items), centres, 3, seed=9)
    return database, clustered(rng.integers(0, 100, queries), centres, 3, seed=10)


def _rivals(database: Codes, items: int, threads: int) -> dict[str, Callable[[], Callable[..., Distances]]]:
    lists = max(1, int(4 * items**0.5) // 8)
    rivals: dict[str, Callable[[], Callable[..., Distances]]] = {}
    for probes in (1, 16):
        if probes <= lists:
            rivals[f"faiss IVF, {lists} lists, {probes} probed"] = lambda probes=probes: _ivf(database, lists, probes)
    graph = cache(lambda: _hnsw(database))
    for width in (64, 256):
        rivals[f"faiss HNSW, 32 links, efSearch {width}"] = lambda width=width: partial(graph(), width=width)
    if find_spec("usearch"):
        other = cache(lambda: _usearch(database, threads))
        rivals["usearch exact"] = lambda: partial(other(), exact=True)
        rivals["usearch graph"] = lambda: partial(other(), exact=False)
    return rivals


def _ivf(database: Codes, lists: int, probes: int) -> Callable[..., Distances]:
    quantizer = faiss.IndexBinaryFlat(64)
    index = faiss.IndexBinaryIVF(quantizer, 64, lists)
    index.train(database.packed[: 64 * lists])
    index.add(database.packed)
    index.nprobe = probes

    def search(queries: NDArray[np.uint8], k: int) -> Distances:
        assert quantizer.d == 64  # the index does not own it, so this keeps it alive
        distances, ids = index.search(queries, k)
        return np.where(ids < 0, 1 << 20, distances)  # −1: fewer than k were found

    return search


def _hnsw(database: Codes) -> Callable[..., Distances]:
    index = faiss.IndexBinaryHNSW(64, 32)
    index.add(database.packed)

    def search(queries: NDArray[np.uint8], k: int, width: int) -> Distances:
        index.hnsw.efSearch = width
        return index.search(queries, k)[0]

    return search


def _usearch(database: Codes, threads: int) -> Callable[..., Distances]:
    """Its exact search over the items of a graph is twice as fast as the one over an array (usearch.index.search)."""
    from usearch.index import Index

    index = Index(ndim=64, metric="hamming", dtype="b1")
    index.add(np.arange(len(database)), database.packed, threads=threads)

    def search(queries: NDArray[np.uint8], k: int, exact: bool) -> Distances:
        return index.search(queries, k, exact=exact, threads=threads).distances

    return search
