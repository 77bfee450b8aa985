"""Ties: order items at the same distance by the query's real outputs, and count those that a list does not show."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.index.byte_tables import ByteTables, table_distances
from scdh.index.kernels.distances import word_columns
from scdh.index.search_index import SearchIndex
from scdh.index.weights import weight_tables

MOST_TIES = 100_000  # items at one distance that are put in order
MOST_COUNTED = 1 << 32  # pairs that are compared once more for it


def items_at(
    index: SearchIndex,
    query_codes: Codes,
    distances: Sequence[int] | NDArray[np.integer],
    only: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """The number of items at exactly a given distance from each query.

    Returns:
        int64 [q].

    >>> from scdh.index import HammingIndex
    >>> index = HammingIndex(Codes.from_bits([[0, 0], [0, 1], [1, 0]]))
    >>> items_at(index, Codes.from_bits([[0, 0]]), [1]).tolist()
    [2]
    """
    counts = np.zeros(len(query_codes), np.int64)
    for number, distance in enumerate(distances):
        query, radius = query_codes[number : number + 1], int(distance)
        nearer = index.count_within(query, radius - 1, only=only)[0] if radius else 0
        counts[number] = index.count_within(query, radius, only=only)[0] - nearer
    return counts


def items_at_sum(
    index: SearchIndex, query_code: Codes, byte_tables: ByteTables, distance: float, only: ArrayLike | None = None
) -> int:
    """The number of items at exactly this distance from one query, by its byte tables: searches with growing k until a
    list ends beyond it.
    """
    k = 64
    while True:
        (hits,) = index.search(query_code, k, byte_tables=byte_tables, only=only)
        if len(hits.ids) < k or hits.distances[-1] > distance:
            return int((hits.distances == distance).sum())
        k *= 8


def order_ties(
    index: SearchIndex,
    code: Codes,
    weights: NDArray[Any],
    ids: NDArray[np.int64],
    distances: NDArray[np.integer],
    only: ArrayLike | None = None,
    *,
    completes: bool,
) -> tuple[NDArray[np.int64], NDArray[np.integer]]:
    """The hits of one query by (distance, Σ of the query's |u| over the bits that differ, id).

    Args:
        index: the items.
        code: of the query.
        weights: |u| [r] of the query.
        ids: of its hits by Hamming distance, [m].
        distances: of these.
        only: the items that count, as for :meth:`HammingIndex.search`.
        completes: add all other items at the last distance, so that the first m of the result are the best of them.

    Returns:
        The hits, of which there may be more than m.

    >>> from scdh.index import HammingIndex
    >>> index = HammingIndex(Codes.from_bits([[0, 1], [1, 0]]))
    >>> query, first = Codes.from_bits([[0, 0]]), np.array([0])
    >>> order_ties(index, query, np.array([0.2, 0.9]), first, np.array([1]), completes=True)[0].tolist()
    [1, 0]
    """
    if not len(ids):
        return ids, distances
    if completes:
        last = int(distances[-1])
        if int(index.count_within(code, last, only=only)[0]) <= MOST_TIES:
            (near,) = index.within(code, last, only=only)
            ids, distances = near.ids, near.distances
    if len(ids) > MOST_TIES:
        return ids, distances
    sums = table_distances(weight_tables(code, weights[None].astype(np.float64)), word_columns(index.codes_of(ids)))[0]
    order = np.lexsort((ids, sums, distances))
    return ids[order], distances[order]


def may_complete(index: SearchIndex, queries: int) -> bool:
    """Whether the other items at the last distance of so many queries are found quickly."""
    return index.abilities.counts and len(index) * queries <= MOST_COUNTED


def tie_note(distance: float, shown: int, at_distance: int, order: str = "id") -> str:
    """One sentence about the last distance of a list of hits; empty if all items at that distance are shown.

    >>> tie_note(1, 3, 10)
    '10 items are at distance 1, shown by id; 7 more at the same distance are not shown.'
    """
    more = at_distance - shown
    if more <= 0:
        return ""
    rest = "1 more at the same distance is" if more == 1 else f"{more:,} more at the same distance are"
    number = distance if isinstance(distance, int) else f"{distance:.4f}"
    shown_by = order if distance else "id"
    return f"{at_distance:,} items are at distance {number}, shown by {shown_by}; {rest} not shown."
