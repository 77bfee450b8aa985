"""The rival of evaluation: MAP as public hashing repositories compute it, one query at a time, by sorting everything.

Rewritten, but with the same work: one-hot label products, distances ½ (bits − q·Bᵀ) by BLAS in float32,
``np.argsort``, and the precision at each hit. The order of ties is arbitrary unless ``kind`` is "stable".
"""

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes


class ArgsortWay:
    """Signs and labels are converted to floats once, which is not timed."""

    def __init__(self, queries: Codes, query_labels: NDArray, database: Codes, labels: NDArray) -> None:
        self.queries = queries.signs().astype(np.float32)
        self.database = database.signs().astype(np.float32)
        self.query_labels, self.labels = query_labels, labels
        if labels.ndim == 2:
            self.query_labels, self.labels = query_labels.astype(np.float32), labels.astype(np.float32)

    def average_precision(self, topk: int | None = None, kind: str | None = None) -> NDArray[np.float64]:
        return np.array([self._one_query(query, topk, kind) for query in range(len(self.queries))])

    def _one_query(self, query: int, topk: int | None, kind: str | None) -> float:
        if self.labels.ndim == 2:
            relevant = self.labels @ self.query_labels[query] > 0
        else:
            # With very many classes one-hot products would need gigabytes; this is faster for the rival.
            relevant = self.labels == self.query_labels[query]
        bits = self.database.shape[1]
        distances = 0.5 * (bits - self.database @ self.queries[query])
        first = relevant[np.argsort(distances, kind=kind)][:topk]
        ranks = np.flatnonzero(first) + 1
        return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0
