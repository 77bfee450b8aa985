"""Means over the seeds: what the tables, the page and the plots of a comparison show."""

import statistics
from collections.abc import Sequence
from typing import Any

AVERAGED = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "l_q", "seconds")


def rows_of(entries: Sequence[dict[str, Any]], target: float | None) -> list[dict[str, Any]]:
    """One row for each (method, bits), by falling mean MAP over all lengths of codes: as measured, not as hoped."""
    groups: dict[tuple[str, bool], dict[int, list[dict[str, Any]]]] = {}
    for entry in entries:
        groups.setdefault((entry["method"], entry["student"]), {}).setdefault(entry["bits"], []).append(entry)
    blocks = [[_row(bits, found, target) for bits, found in sorted(by.items())] for by in groups.values()]
    blocks.sort(key=lambda block: -statistics.fmean(row["map"] or 0.0 for row in block))
    return [row for block in blocks for row in block]


def _row(bits: int, entries: Sequence[dict[str, Any]], target: float | None) -> dict[str, Any]:
    good = [entry for entry in entries if "failed" not in entry]
    first = entries[0]
    row: dict[str, Any] = {key: first[key] for key in ("method", "title", "student")} | {"bits": bits}
    row |= {"runs": len(good), "failed": len(entries) - len(good)}
    for key in AVERAGED:
        values = [entry[key] for entry in good if entry.get(key) is not None]
        row[key] = statistics.fmean(values) if values else None
        row[f"{key}_std"] = statistics.stdev(values) if len(values) > 1 else None
    row["epochs"] = good[0]["epochs"] if good else None
    times = [time_to(entry, target) for entry in good]
    reached = [time for time in times if time is not None]
    row["seconds_to_target"] = statistics.fmean(reached) if reached and len(reached) == len(times) else None
    row["reached_target"] = len(reached)
    return row


def time_to(entry: dict[str, Any], target: float | None) -> float | None:
    """Training seconds until the validation MAP was ``target`` for the first time; None where it never was."""
    if target is None:
        return None
    return next((seconds for seconds, score in entry.get("validation", ()) if score >= target), None)


def shared_target(entries: Sequence[dict[str, Any]]) -> float | None:
    """The highest validation MAP that every run reached, rounded down; None where there was no validation."""
    best = [max(score for _, score in entry["validation"]) for entry in entries if entry.get("validation")]
    return int(min(best) * 100) / 100 if best else None
