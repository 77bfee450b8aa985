"""Cosine distance of float vectors, some queries at a time: the baseline for Hamming distances of codes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

COSINE = "cosine distance"


def unit_vectors(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Rows divided by their length, [n, d]; a row of zeros stays zero, and is equally far from everything."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length == 0, 1, length)


def cosine_distances(
    queries: NDArray[np.floating], database: NDArray[np.floating]
) -> Callable[[slice], NDArray[np.floating]]:
    """A function that returns 1 − cosine of some queries to all items, for ``evaluate_distances``.

    >>> cosine_distances(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 3.0]]))(slice(0, 1)).tolist()
    [[0.0, 1.0]]
    """
    unit_queries, unit_items = unit_vectors(queries), unit_vectors(database).T
    return lambda rows: 1 - unit_queries[rows] @ unit_items
