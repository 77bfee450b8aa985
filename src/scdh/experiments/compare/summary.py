"""Means over the seeds: what the tables, the page and the plots of a comparison show."""

import statistics
from collections.abc import Iterable, Sequence

from scdh.experiments.compare.results import CellResult, SummaryRow

AVERAGED = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "l_q", "seconds")


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

    Args:
        cells: results of all runs, in any order; a method and its student are summarised apart.
        target: validation MAP for ``seconds_to_target``.

    Returns:
        Rows of one method together, by bits; methods by falling mean MAP over all lengths of codes.
    """
    groups: dict[tuple[str, bool], dict[int, list[CellResult]]] = {}
    for cell in cells:
        groups.setdefault((cell.method, cell.student), {}).setdefault(cell.bits, []).append(cell)
    methods = [[_summary_row(by_bits[bits], target) for bits in sorted(by_bits)] for by_bits in groups.values()]
    methods.sort(key=lambda rows: -statistics.fmean(row.map or 0.0 for row in rows))
    return [row for rows in methods for row in rows]


def _summary_row(cells: Sequence[CellResult], target: float | None) -> SummaryRow:
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
            "title": first.title,
            "student": first.student,
            "bits": first.bits,
            "runs": len(scored),
            "failed": len(cells) - len(scored),
            **scores,
            "epochs": scored[0].epochs if scored else None,
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
    """The highest validation MAP that every run reached, rounded down; None without validation."""
    best = [max(score for _, score in cell.validation) for cell in cells if cell.validation]
    return int(min(best) * 100) / 100 if best else None
