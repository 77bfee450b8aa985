"""Everything within 2 bits, and the 10 nearest where these are near: tables against scanning, and against
``faiss.IndexBinaryMultiHash`` with settings that make it exact."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import faiss_rival
from benchmarks.agreement import Disagreement, has_all_rows, same_hits, same_nearest, same_within
from benchmarks.made_up import PLANTED, planted, uniform
from benchmarks.report import NEAREST, WITHIN
from benchmarks.timing import Row, Table, one_at_a_time, print_row, take_turns
from benchmarks.warm import load_kernels
from scdh.codes import Codes
from scdh.index import HammingIndex, set_threads

RADIUS = 2


@dataclass(frozen=True)
class Plan:
    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    # All settings of faiss are tried up to this size; beyond it the first, which gains with size and builds slowly.
    try_settings_up_to: int = 1_000_000
    batches: int = 5  # each turn has other queries: for the same ones everything would be in the processor's cache
    queries: int = 1000  # of one batch; up to 100 queries faiss takes one thread only
    scanned: int = 100  # of these, for the scan
    warm: bool = True


QUICK = Plan(sizes=(10_000, 100_000, 1_000_000), try_settings_up_to=100_000, batches=3)


def measure(plan: Plan, threads: int) -> list[Table]:
    faiss_rival.set_threads(threads)
    set_threads(threads)
    if plan.warm:
        load_kernels(64)
    within = []
    nearest = []
    for size in plan.sizes:
        # Small databases are too small for items planted around that many queries.
        queries = min(plan.queries, size // (4 * len(PLANTED) * plan.batches))
        database, query_codes, rows = planted(size, 64, plan.batches * queries, seed=1)
        ours = _prepared(database)
        setting = faiss_rival.RADIUS_2_SETTINGS[0]
        if size <= plan.try_settings_up_to:
            setting = _fastest_setting(database, query_codes[:queries])
        rival = faiss_rival.multi_hash(database, setting)
        within += _within(ours, rival, setting, query_codes, rows, plan)
        del rival
        if size == max(plan.sizes):
            scanned = min(plan.scanned, queries)
            flat = faiss_rival.flat(database, 64)
            for what, way, few in (
                (f"{len(PLANTED)} items within 2 bits", "tables", query_codes[: plan.batches * scanned]),
                ("nothing near", "auto", uniform(plan.batches * scanned, 64, seed=2)),
            ):
                nearest.append(_nearest(what, way, ours, flat, few, plan.batches))
    return [
        Table(
            WITHIN,
            f"64-bit uniform codes with {len(PLANTED)} items planted within 2 bits of each query. "
            "Rivals: our own scan, and `faiss.IndexBinaryMultiHash(64, nhash, b)` with the fastest setting "
            "(named as nhash×b, nflip) among those that find everything within 2 bits: "
            f"{'; '.join(_name(one) for one in faiss_rival.RADIUS_2_SETTINGS)}. All are tried on up to "
            f"{plan.try_settings_up_to:,} items; beyond that, where building takes long, the first is used. "
            "Every turn has other queries. All three give the same items and distances, with all planted ones.",
            within,
        ),
        Table(
            NEAREST,
            "`search(…, k=10)` on the largest of these databases: rivals are our own scan and `faiss.IndexBinaryFlat`. "
            'With nothing near, tables cannot win; `by="auto"` then goes back to the scan.',
            nearest,
        ),
    ]


def _within(
    ours: HammingIndex, rival: Any, setting: tuple[int, int, int], query_codes: Codes, rows: np.ndarray, plan: Plan
) -> list[Row]:
    queries = len(query_codes) // plan.batches
    scanned = min(plan.scanned, queries)
    batches = [query_codes[at * queries : (at + 1) * queries] for at in range(plan.batches)]
    for at, batch in enumerate(batches):
        hits = ours.within(batch, RADIUS, by="tables")
        same_within(hits, *faiss_rival.within(rival, batch.packed, RADIUS))
        has_all_rows(hits, rows[at * queries : (at + 1) * queries])
        if at == 0:
            same_hits(ours.within(batch[:scanned], RADIUS, by="tables"), ours.within(batch[:scanned], by="scan"))
    works: dict[str, Callable[[int], object]] = {
        "scan": lambda turn: ours.within(batches[turn % plan.batches][:scanned], RADIUS, by="scan"),
        "faiss": lambda turn: faiss_rival.within(rival, batches[turn % plan.batches].packed, RADIUS),
        "tables": lambda turn: ours.within(batches[turn % plan.batches], RADIUS, by="tables"),
    }
    times = take_turns(works, most=2 * plan.batches)
    times = {name: spent / (scanned if name == "scan" else queries) for name, spent in times.items()}
    singles = [query_codes[at] for at in range(min(200, len(query_codes)))]
    alone = one_at_a_time(
        {
            "scan": lambda at: ours.within(singles[at], RADIUS, by="scan"),
            "faiss": lambda at: faiss_rival.within(rival, singles[at].packed, RADIUS),
            "tables": lambda at: ours.within(singles[at], RADIUS, by="tables"),
        },
        range(len(singles)),
    )
    result = []
    for calls, seconds in ((f"{queries:,} at once ({scanned} for the scan)", times), ("one at a time", alone)):
        row: Row = {
            "items": len(ours),
            "queries": calls,
            "scdh scan, µs/query": 1e6 * seconds["scan"],
            "faiss setting": _name(setting),
            "faiss, µs/query": 1e6 * seconds["faiss"],
            "scdh tables, µs/query": 1e6 * seconds["tables"],
            "faster than the scan": seconds["scan"] / seconds["tables"],
            "faster than faiss": seconds["faiss"] / seconds["tables"],
        }
        print_row("radius", row)
        result.append(row)
    return result


def _nearest(what: str, way: str, ours: HammingIndex, flat: Any, query_codes: Codes, batches: int) -> Row:
    queries, k = len(query_codes) // batches, len(PLANTED)
    parts = [query_codes[at * queries : (at + 1) * queries] for at in range(batches)]
    for part in parts:
        hits, scan = ours.search(part, k, by=way), ours.search(part, k, by="scan")
        same_nearest(hits, *flat.search(part.packed, k))
        if not np.array_equal(hits.ids, scan.ids):
            raise Disagreement("Tables and scan give different ids.")
    times = take_turns(
        {
            "faiss": lambda turn: flat.search(parts[turn % batches].packed, k),
            "scan": lambda turn: ours.search(parts[turn % batches], k, by="scan"),
            "tables": lambda turn: ours.search(parts[turn % batches], k, by=way),
        },
        most=2 * batches,
    )
    row: Row = {
        "what": what,
        "items": len(ours),
        "queries": queries,
        "faiss flat, µs/query": 1e6 * times["faiss"] / queries,
        "scdh scan, µs/query": 1e6 * times["scan"] / queries,
        "by": way,
        "scdh that way, µs/query": 1e6 * times["tables"] / queries,
        "faster than the scan": times["scan"] / times["tables"],
        "faster than faiss flat": times["faiss"] / times["tables"],
    }
    print_row("radius", row)
    return row


def _fastest_setting(database: Codes, query_codes: Codes) -> tuple[int, int, int]:
    spent = {}
    for setting in faiss_rival.RADIUS_2_SETTINGS:
        index, times = faiss_rival.multi_hash(database, setting), []
        for _ in range(4):
            start = time.perf_counter()
            faiss_rival.within(index, query_codes.packed, RADIUS)
            times.append(time.perf_counter() - start)
        spent[setting] = statistics.median(times[1:])
    return min(spent, key=lambda setting: spent[setting])


def _prepared(codes: Codes) -> HammingIndex:
    """With few codes ``prepare`` builds no tables, as a scan is faster; ``by="tables"`` builds them anyway."""
    index = HammingIndex(codes)
    index.prepare()
    index.within(codes[:1], 0, by="tables")
    return index


def _name(setting: tuple[int, int, int]) -> str:
    return f"{setting[0]}×{setting[1]}, {setting[2]}"
