"""How many items share a distance: a list of hits that ends within a tie shows some of them by id alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.index.byte_tables import ByteTables
from scdh.index.search_index import SearchIndex


def items_at(
    index: SearchIndex,
    query_codes: Codes,
    distances: Sequence[int] | NDArray[np.integer],
    only: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """The number of items at exactly a given distance from each query.

    Args:
        index: the items.
        query_codes: q codes of the bits of the index.
        distances: q whole numbers of at least 0.
        only: the items that count, as for :meth:`HammingIndex.search`.

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
    """The number of items at exactly this distance from one query, by its tables of bytes: lists that grow until they
    end beyond it."""
    k = 64
    while True:
        (hits,) = index.search(query_code, k, byte_tables=byte_tables, only=only)
        if len(hits.ids) < k or hits.distances[-1] > distance:
            return int((hits.distances == distance).sum())
        k *= 8


def tie_note(distance: float, shown: int, at_distance: int, order: str = "id") -> str:
    """One sentence about the last distance of a list of hits; empty if all items at that distance are shown.

    Args:
        distance: of the last hit: bits, or a real number.
        shown: hits at that distance in the list.
        at_distance: items at that distance in the index.
        order: what orders items at the same distance.

    >>> tie_note(1, 3, 10)
    '10 items are at distance 1, shown by id; 7 more at the same distance are not shown.'
    """
    more = at_distance - shown
    if more <= 0:
        return ""
    rest = "1 more at the same distance is" if more == 1 else f"{more:,} more at the same distance are"
    number = distance if isinstance(distance, int) else f"{distance:.4f}"
    return f"{at_distance:,} items are at distance {number}, shown by {order}; {rest} not shown."
