"""Two histograms per query: all that a Hamming ranking says, apart from the order of ties."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.metrics.blocks import Advance, Block, blocks
from scdh.metrics.labels import Relevance, check_labels


def distance_histograms(
    query_codes: Codes,
    query_labels: ArrayLike,
    database_codes: Codes,
    database_labels: ArrayLike,
    *,
    leave_one_out: bool = False,
    advance: Advance | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many items, and how many relevant items, lie at each distance from each query.

        items[q, d]    = |{ j : d(q, j) = d }|
        relevant[q, d] = |{ j : d(q, j) = d and j shares a label with q }|        d = 0 … bits

    Both are int64 [queries, bits + 1]. With ``leave_one_out`` query q does not count item q.

    >>> query, database = Codes.from_bits([[0, 0]]), Codes.from_bits([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> items, relevant = distance_histograms(query, [7], database, [7, 7, 3, -1])
    >>> items.tolist(), relevant.tolist()
    ([[1, 2, 1]], [[1, 1, 0]])
    """
    relevance = Relevance(
        check_labels(query_labels, len(query_codes), "query_labels"),
        check_labels(database_labels, len(database_codes), "database_labels"),
    )
    shape = (len(query_codes), database_codes.bits + 1)
    items, relevant = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for block in blocks(query_codes, database_codes, relevance, leave_one_out, advance):
        of_all, of_relevant = block_histograms(block, database_codes.bits)
        items[block.rows] += of_all[:, :-1]
        relevant[block.rows] += of_relevant[:, :-1]
    return items, relevant


def block_histograms(block: Block, bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both histograms of one block over 0 … bits + 1, where the last level holds the pairs left out."""
    levels, count = bits + 2, len(block.distances)
    # One count over (query, relevant or not, distance) gives both histograms in one pass.
    cells = (np.arange(count) * (2 * levels))[:, None] + block.distances
    cells += block.relevant * np.intp(levels)
    table = np.bincount(cells.ravel(), minlength=count * 2 * levels).reshape(count, 2, levels)
    return table.sum(axis=1), table[:, 1]
