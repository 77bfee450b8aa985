"""Means over the seeds: what the tables, the page and the plots of a comparison show."""

import statistics
from collections.abc import Iterable, Sequence

from scdh.experiments.compare.results import CellResult, SummaryRow

AVERAGED = (
    *("map", "map_best", "map_worst", "map_last", "precision_at_radius", "empty_balls", "precision_at_10", "l_q"),
    *("seconds", "best_epoch"),
)
TARGET_SHARE = 0.95  # of the lowest of the methods' best validation MAPs


def average(values: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation (of the sample, n − 1) of the values that are not None.

    >>> average([1.0, 3.0, None])
    (2.0, 1.4142135623730951)
    >>> average([1.0])
    (1.0, None)
    >>> average([])
    (None, None)
    """
    present = [value for value in values if value is not None]
    mean = statistics.fmean(present) if present else None
    return mean, statistics.stdev(present) if len(present) > 1 else None


def summarise(cells: Iterable[CellResult], target: float | None) -> list[SummaryRow]:
    """One row for each (method, bits) of the results.

    Returns:
        Rows of one method together, by bits; methods by falling mean MAP over the lengths of codes that all have.
    """
    groups: dict[tuple[str, bool], dict[int, list[CellResult]]] = {}
    for cell in cells:
        groups.setdefault((cell.method, cell.student), {}).setdefault(cell.bits, []).append(cell)
    methods = []
    for by_bits in groups.values():
        title = _title([cell for cells in by_bits.values() for cell in cells])
        methods.append([_summary_row(title, by_bits[bits], target) for bits in sorted(by_bits)])
    shared = set.intersection(*({row.bits for row in rows} for rows in methods)) if methods else set()
    # Short codes score lower, so that a method without them would be put too high by a mean over all of its own.
    methods.sort(key=lambda rows: -statistics.fmean(row.map or 0.0 for row in rows if not shared or row.bits in shared))
    return [row for rows in methods for row in rows]


def _title(cells: Sequence[CellResult]) -> str:
    """The title of all rows of a method, with the length of its codes if that is the same for all requested lengths."""
    title, scored = cells[0].title, [cell for cell in cells if cell.failed is None]
    lengths = {cell.code_bits or cell.bits for cell in scored}
    has_own_length = len(lengths) == 1 and any(cell.code_bits is not None for cell in scored)
    return f"{title} ({lengths.pop()} bits)" if has_own_length else title


def _summary_row(title: str, cells: Sequence[CellResult], target: float | None) -> SummaryRow:
    first = cells[0]
    scored = [cell for cell in cells if cell.failed is None]
    scores: dict[str, float | None] = {}
    for name in AVERAGED:
        scores[name], scores[f"{name}_std"] = average(getattr(cell, name) for cell in scored)
    times = [seconds_to(cell, target) for cell in scored]
    reached = [seconds for seconds in times if seconds is not None]
    return SummaryRow.model_validate(
        {
            "method": first.method,
            "title": title,
            "student": first.student,
            "bits": first.bits,
            "runs": len(scored),
            "failed": len(cells) - len(scored),
            **scores,
            "epochs": scored[0].epochs if scored else None,
            "learned_weights": scored[0].learned_weights if scored else None,
            "own_weights": scored[0].own_weights if scored else None,
            "seconds_to_target": average(reached)[0] if len(reached) == len(times) else None,
            "reached_target": len(reached),
        }
    )


def seconds_to(cell: CellResult, target: float | None) -> float | None:
    """Training seconds until the validation MAP was ``target`` for the first time; None if it never was."""
    if target is None:
        return None
    return next((seconds for seconds, score in cell.validation if score >= target), None)


def shared_target(cells: Iterable[CellResult]) -> float | None:
    """A validation MAP that methods reach before their best, for comparing times; None without validation.

    It is 95 % of the lowest best: the best of each method and length of codes is the mean over seeds of its runs' best
    epochs. A best below half of the highest does not count, because all others pass such a level in their first epoch.
    A run that just reached its best would be compared by when it stopped gaining, so the level is a little lower.
    """
    groups: dict[tuple[str, int], list[float]] = {}
    for cell in cells:
        if cell.validation and not cell.student:
            groups.setdefault((cell.method, cell.bits), []).append(max(score for _, score in cell.validation))
    best = [statistics.fmean(scores) for scores in groups.values()]
    if not best:
        return None
    return int(TARGET_SHARE * min(score for score in best if score >= max(best) / 2) * 100) / 100
