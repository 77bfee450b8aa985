"""Walk all (query, item) pairs in blocks that stay small, whatever the number of queries and items."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.index.distances import BLOCK_PAIRS, hamming, word_columns
from scdh.metrics.labels import Relevance

_BLOCK_COLUMNS = 8192

Advance = Callable[[int], None]


class Block(NamedTuple):
    """Distances and relevance of some queries against some items, both [rows, columns]."""

    rows: slice
    columns: slice
    distances: NDArray[np.unsignedinteger]
    relevant: NDArray[np.bool_]


def blocks(
    query_codes: Codes,
    database_codes: Codes,
    relevance: Relevance,
    leave_one_out: bool = False,
    advance: Advance | None = None,
) -> Iterator[Block]:
    """All blocks: queries outside, database inside and in ascending order.

    With ``leave_one_out`` query i and item i are the same thing, and their pair gets the distance bits + 1:
    one level behind all others, where nobody counts it. ``advance`` is told the number of pairs done.
    """
    bits = database_codes.bits
    queries, database = word_columns(query_codes), word_columns(database_codes)
    # Many queries against few items of many bits: the histograms of a block must stay small as well.
    widest = max(1, min(_BLOCK_COLUMNS, len(database_codes)), bits + 2)
    step = max(1, BLOCK_PAIRS // widest)
    for top in range(0, len(query_codes), step):
        rows = slice(top, min(top + step, len(query_codes)))
        for left in range(0, len(database_codes), _BLOCK_COLUMNS):
            columns = slice(left, min(left + _BLOCK_COLUMNS, len(database_codes)))
            distances = hamming(queries[:, rows], database[:, columns], bits)
            relevant = relevance.block(rows, columns)
            if leave_one_out:
                own = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
                distances[own - rows.start, own - columns.start] = bits + 1
                relevant[own - rows.start, own - columns.start] = False
            yield Block(rows, columns, distances, relevant)
            if advance is not None:
                advance(distances.size)
