"""Rankings by real-valued distances, some queries at a time.

A level is a group of items at exactly the same distance from a query, as it is for Hamming distances; so the
formulas of ``ranking``, ``cut_level`` and ``returned`` hold here too. Real distances can have one level per item, so
histograms are made and scored for one block of queries at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.errors import DataError
from scdh.metrics.histograms import Advance
from scdh.metrics.ranking import average_precision, average_precisions
from scdh.metrics.relevance import Relevance

# Distances that are sorted together: some tens of megabytes of memory.
BLOCK_CELLS = 1 << 20

DistanceSource = ArrayLike | Callable[[slice], ArrayLike]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DistanceScores:
    """The scores of q queries over n items.

    ``average_precisions`` has float64 [q] for each order of tied items, ``relevant`` int64 [q] the number of relevant
    items; the others are sums over the queries of precision and recall of the first 1, 2, … n items, float64 [n].
    """

    average_precisions: dict[str, Floats]
    relevant: Counts
    precision_sums: Floats
    recall_sums: Floats


def check_distances(distances: ArrayLike) -> NDArray[Any]:
    """The distances as an array [q, n]."""
    try:
        array = np.asarray(distances)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"Distances must be an array of shape [queries, items], but got other values: {error}."
        ) from error
    if array.ndim != 2:
        raise DataError(f"Distances must have shape [queries, items], got shape {list(array.shape)}.")
    return array


def score_distances(
    distances: DistanceSource,
    relevance: Relevance,
    *,
    topk: int | None,
    denominator: str,
    ties: Sequence[str],
    leave_one_out: bool,
    advance: Advance,
) -> DistanceScores:
    """Score all queries, block by block, for these orders of ties; with ``leave_one_out`` query q has no item q."""
    queries, items = relevance.query.shape[1], relevance.database.shape[1]
    size = max(1, BLOCK_CELLS // items)
    blocks = []
    for start in range(0, queries, size):
        rows = slice(start, min(start + size, queries))
        block, related = _read_block(distances, rows, items), relevance.block(rows, slice(None))
        if leave_one_out:
            others = np.arange(items) != np.arange(rows.start, rows.stop)[:, None]
            block, related = (array[others].reshape(len(array), -1) for array in (block, related))
        blocks.append(_score_block(block, related, topk, denominator, ties))
        advance((rows.stop - rows.start) * items)
    return DistanceScores(
        {order: np.concatenate([block.average_precisions[order] for block in blocks]) for order in ties},
        np.concatenate([block.relevant for block in blocks]),
        np.sum([block.precision_sums for block in blocks], axis=0),
        np.sum([block.recall_sums for block in blocks], axis=0),
    )


def _read_block(distances: DistanceSource, rows: slice, items: int) -> NDArray[Any]:
    """The distances of some queries, [rows, items]."""
    block = np.asarray(distances(rows)) if callable(distances) else check_distances(distances)[rows]
    expected = (rows.stop - rows.start, items)
    if block.shape != expected:
        raise DataError(
            f"The distances of queries {rows.start} to {rows.stop - 1} must have shape {list(expected)}, "
            f"got shape {list(block.shape)}."
        )
    if block.dtype.kind not in "iuf":
        raise DataError(f"Distances must be real numbers, got values of type {block.dtype}.")
    if block.dtype.kind == "f" and np.isnan(block).any():
        row, column = np.argwhere(np.isnan(block))[0]
        raise DataError(f"Distances must be numbers, but that of query {rows.start + row} to item {column} is NaN.")
    return block


def _score_block(
    distances: NDArray[Any], related: NDArray[np.bool_], topk: int | None, denominator: str, ties: Sequence[str]
) -> DistanceScores:
    """The scores of distances [q, n], where ``related`` [q, n] says which items are relevant."""
    order = np.argsort(distances, axis=1, kind="stable")
    related = np.take_along_axis(related, order, axis=1)
    level = _levels(np.take_along_axis(distances, order, axis=1))
    items, relevant = _histograms(level, related)
    options: dict[str, Any] = {"topk": topk, "denominator": denominator}
    by_level = [name for name in ties if name != "order"]
    scores = dict(zip(by_level, average_precisions(items, relevant, by_level, **options), strict=True))
    if "order" in ties:  # each item is a level of its own
        scores["order"] = average_precision(np.ones(related.shape, np.int64), related.astype(np.int64), **options)
    total = relevant.sum(axis=1)
    returned = np.arange(1, related.shape[1] + 1)
    hits = _expected_hits(level, items, relevant, returned)
    precision_sums = (hits / returned).sum(axis=0)
    recall_sums = (hits / np.maximum(total, 1)[:, None]).sum(axis=0)
    return DistanceScores(scores, total, precision_sums, recall_sums)


def _levels(ordered: NDArray[Any]) -> Counts:
    """The level of each of the ascending distances [q, n] of a query: 0 for the nearest."""
    level = np.zeros(ordered.shape, np.int64)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=level[:, 1:])
    return level


def _histograms(level: Counts, related: NDArray[np.bool_]) -> tuple[Counts, Counts]:
    """How many items, and how many relevant ones, are on each level: int64 [q, levels] both."""
    shape = len(level), int(level.max(initial=-1)) + 1
    cells = level + np.arange(len(level))[:, None] * shape[1]
    size = shape[0] * shape[1]
    items, relevant = (np.bincount(part, minlength=size).reshape(shape) for part in (cells.ravel(), cells[related]))
    return items, relevant


def _expected_hits(level: Counts, items: Counts, relevant: Counts, k: Counts) -> Floats:
    """E[relevant items in the top k] for k = 1 … n, float64 [q, n]; see ``returned.expected_hits``."""
    before, relevant_before = (np.cumsum(counts, axis=1) - counts for counts in (items, relevant))
    at_rank = [np.take_along_axis(counts, level, axis=1) for counts in (before, relevant_before, items, relevant)]
    n_before, hits_before, n, rho = at_rank
    return hits_before + rho * ((k - n_before) / n)
