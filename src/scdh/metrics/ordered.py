"""The classic, order-dependent average precision: ties stand in the order of the database rows.

Kept because published numbers were made this way. It changes when the database is shuffled, by many points
for compact codes, so it says as much about the order of a file as about the codes.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.errors import ConfigError, unknown_name
from scdh.metrics.blocks import Advance, blocks
from scdh.metrics.histograms import block_histograms
from scdh.metrics.labels import Relevance, check_labels
from scdh.metrics.ranking import DENOMINATORS, check_histograms, check_topk


def ordered_average_precision(
    query_codes: Codes,
    query_labels: ArrayLike,
    database_codes: Codes,
    database_labels: ArrayLike,
    items: NDArray[np.integer],
    relevant: NDArray[np.integer],
    *,
    topk: int | None = None,
    denominator: str = "hits",
    leave_one_out: bool = False,
    advance: Advance | None = None,
) -> NDArray[np.float64]:
    """Average precision of each query when items are sorted by (distance, row).

        AP = 1/D · Σ_{relevant j with rank(j) ≤ k} relevant rank(j) / rank(j)

    ``items`` and ``relevant`` are the histograms of ``distance_histograms``: they say at which rank each
    level starts, so one more walk over the blocks places every item without holding a whole ranking.

    >>> from scdh.metrics import distance_histograms
    >>> query, database = Codes.from_bits([[0]]), Codes.from_bits([[0], [0]])
    >>> tables = distance_histograms(query, [1], database, [0, 1])
    >>> ordered_average_precision(query, [1], database, [0, 1], *tables).tolist()
    [0.5]
    >>> ordered_average_precision(query, [1], database, [1, 0], *tables).tolist()
    [1.0]
    """
    check_histograms(items, relevant)
    check_topk(topk)
    if denominator not in DENOMINATORS:
        raise ConfigError(unknown_name("denominator", denominator, DENOMINATORS))
    relevance = Relevance(
        check_labels(query_labels, len(query_codes), "query_labels"),
        check_labels(database_labels, len(database_codes), "database_labels"),
    )
    limit = len(database_codes) if topk is None else topk
    sums, hits = np.zeros(len(query_codes)), np.zeros(len(query_codes), dtype=np.int64)
    for block in blocks(query_codes, database_codes, relevance, leave_one_out, advance):
        count, part = len(block.distances), block.rows
        if block.columns.start == 0:
            # Next free rank (counted from 0) of each level, over all items and over relevant ones; the level
            # of pairs left out comes last and is never asked for.
            ahead, relevant_ahead = _starts(items[part]), _starts(relevant[part])
        of_all, of_relevant = block_histograms(block, database_codes.bits)
        order = np.argsort(block.distances, axis=1, kind="stable")
        query, place = np.nonzero(np.take_along_axis(block.relevant, order, axis=1))
        level = block.distances[query, order[query, place]]
        # Inside the sorted block an item's place counts from the block's first item of its own level.
        rank = (ahead - _starts(of_all)[:, :-1])[query, level] + place + 1
        row_starts = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=count))[:-1]])
        relevant_place = np.arange(len(query)) - row_starts[query]
        relevant_rank = (relevant_ahead - _starts(of_relevant)[:, :-1])[query, level] + relevant_place + 1
        inside = rank <= limit
        sums[part] += np.bincount(query, weights=np.where(inside, relevant_rank / rank, 0.0), minlength=count)
        hits[part] += np.bincount(query[inside], minlength=count)
        ahead = ahead + of_all
        relevant_ahead = relevant_ahead + of_relevant
    total = relevant.sum(axis=1)
    divisor = {"hits": hits, "relevant": total, "min(k, relevant)": np.minimum(limit, total)}[denominator]
    return np.where(divisor > 0, sums / np.maximum(divisor, 1), 0.0)


def _starts(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """How many lie before each level [rows, levels], and before one level more."""
    return np.concatenate([np.zeros((len(counts), 1), dtype=np.int64), np.cumsum(counts, axis=1)], axis=1)
