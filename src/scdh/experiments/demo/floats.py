"""Scores of float vectors ranked by cosine: what codes have to be measured against.

Hamming distances tie all the time, cosines of real vectors hardly ever, so here one plain sort is the ranking.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

DEFINITION = (
    "Float vectors are ranked by cosine, largest first, equal ones in the order of the database. MAP and precision "
    "at k are defined as for codes; there is no radius."
)
_ROWS = 512  # queries ranked at once


@dataclass(frozen=True, eq=False)
class CosineScores:
    """Scores of a ranking by cosine.

    Args:
        map: mean of ``ap``.
        ap: float64 [q], average precision of each query.
        precisions: float64 [q, n], precision of the first 1 … n items.
    """

    map: float
    ap: np.ndarray = field(repr=False)
    precisions: np.ndarray = field(repr=False)

    def precision_at_k(self, k: int | Sequence[int] | np.ndarray) -> np.ndarray:
        """Mean share of relevant items in the first k; a k beyond the database counts the missing ones as wrong."""
        mean, ks = self.precisions.mean(axis=0), np.asarray(k)
        present = np.minimum(ks, len(mean))
        return mean[present - 1] * present / ks


def nearest_by_cosine(queries: np.ndarray, database: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest vectors of each query.

    Args:
        queries: float [q, d].
        database: float [n, d].
        k: how many, at most n.

    Returns:
        Positions in the database int64 [q, k], nearest first, and their cosines float [q, k].
    """
    cosines = _unit_vectors(queries) @ _unit_vectors(database).T
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(cosines, order, axis=1)


def cosine_scores(
    queries: np.ndarray, query_labels: np.ndarray, database: np.ndarray, database_labels: np.ndarray
) -> CosineScores:
    """AP = Σ_k precision@k · relevant_k / Σ_k relevant_k over the whole ranking; 0 where nothing is relevant.

    Args:
        queries: float [q, d].
        query_labels: int64 [q].
        database: float [n, d].
        database_labels: int64 [n]; an item is relevant if it has the query's label.

    >>> scores = cosine_scores(
    ...     np.array([[1.0, 0.0]]), np.array([7]), np.array([[2.0, 0.1], [1.0, 1.0], [0.0, 1.0]]), np.array([7, 8, 7])
    ... )
    >>> round(scores.map, 4), scores.precision_at_k([1, 2]).tolist()
    (0.8333, [1.0, 0.5])
    """
    ranks = np.arange(1, len(database) + 1)
    aps, precisions = [], []
    for start in range(0, len(queries), _ROWS):
        block = slice(start, start + _ROWS)
        order, _ = nearest_by_cosine(queries[block], database, len(database))
        relevant = database_labels[order] == query_labels[block, None]
        precision = np.cumsum(relevant, axis=1) / ranks
        aps.append((precision * relevant).sum(axis=1) / np.maximum(relevant.sum(axis=1), 1))
        precisions.append(precision)
    ap = np.concatenate(aps)
    return CosineScores(float(ap.mean()), ap, np.concatenate(precisions))


def _unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Rows divided by their length; a zero row stays zero and is equally far from everything."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length == 0, 1, length)
