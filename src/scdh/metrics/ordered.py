"""The classic, order-dependent average precision: ties are in the order of the database rows.

It is here because published numbers were computed this way. It changes when the database is shuffled, by many points
for short codes, so it depends as much on the order of a file as on the codes.
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.errors import ConfigError, unknown_name
from scdh.index.kernels.distances import word_columns
from scdh.index.kernels.threads import run
from scdh.metrics.histograms import Advance
from scdh.metrics.ranking import DENOMINATORS, check_histograms, check_topk
from scdh.metrics.relevance import Relevance, check_labels

_QUERIES = 16


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

    ``items`` and ``relevant`` are the histograms of ``distance_histograms``: they give the rank at which each level
    starts, so one more pass over the rows gives the rank of every item without a ranking in memory.

    >>> from scdh.metrics import distance_histograms
    >>> query, database = Codes.from_bits([[0]]), Codes.from_bits([[0], [0]])
    >>> tables = distance_histograms(query, [1], database, [0, 1])
    >>> ordered_average_precision(query, [1], database, [0, 1], *tables).tolist()
    [0.5]
    >>> ordered_average_precision(query, [1], database, [1, 0], *tables).tolist()
    [1.0]
    """
    from scdh.index.kernels.counting import precision_sums

    check_histograms(items, relevant)
    check_topk(topk)
    if denominator not in DENOMINATORS:
        raise ConfigError(unknown_name("denominator", denominator, DENOMINATORS))
    relevance = Relevance(
        check_labels(query_labels, len(query_codes), "query_labels"),
        check_labels(database_labels, len(database_codes), "database_labels"),
    )
    count, limit = len(query_codes), len(database_codes) if topk is None else int(topk)
    words, query_rows = word_columns(database_codes), np.ascontiguousarray(word_columns(query_codes).T)
    query_label_rows = np.ascontiguousarray(relevance.query.T)
    excluded = np.arange(count) if leave_one_out else np.full(count, -1)
    before, relevant_before = _before(items), _before(relevant)
    sums, hits = np.zeros(count), np.zeros(count, dtype=np.int64)

    def task(part: slice) -> int:
        precision_sums(
            words,
            query_rows[part],
            relevance.database,
            query_label_rows[part],
            relevance.single,
            excluded[part],
            limit,
            before[part],
            relevant_before[part],
            sums[part],
            hits[part],
        )
        return len(query_rows[part]) * len(database_codes)

    for pairs in run([partial(task, slice(start, start + _QUERIES)) for start in range(0, count, _QUERIES)]):
        if advance is not None:
            advance(pairs)
    total = relevant.sum(axis=1)
    divisor = {"hits": hits, "relevant": total, "min(k, relevant)": np.minimum(limit, total)}[denominator]
    return np.where(divisor > 0, sums / np.maximum(divisor, 1), 0.0)


def _before(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number of items nearer than each level."""
    return np.cumsum(counts, axis=1, dtype=np.int64) - counts
