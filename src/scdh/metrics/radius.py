"""Precision within a Hamming radius: of the items that a look-up in a hash table returns."""

import numpy as np
from numpy.typing import NDArray

from scdh.errors import ConfigError
from scdh.metrics.ranking import check_histograms


def precision_within_radius(
    items: NDArray[np.integer], relevant: NDArray[np.integer], radius: int = 2
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Share of relevant items among those with distance ≤ radius, and how many those are, for each query.

        precision = Σ_{d ≤ radius} relevant[d] / Σ_{d ≤ radius} items[d]

    An empty ball scores 0 and stays in the mean, as in the evaluation code of the paper's authors. Long codes
    have many empty balls, so the share of them (``np.mean(sizes == 0)``) should be reported with this number.

    >>> precision_within_radius(np.array([[1, 3, 9], [0, 0, 9]]), np.array([[1, 1, 0], [0, 0, 9]]), radius=1)
    (array([0.5, 0. ]), array([4, 0]))
    """
    check_histograms(items, relevant)
    check_radius(radius)
    sizes = items[:, : radius + 1].sum(axis=1, dtype=np.int64)
    return relevant[:, : radius + 1].sum(axis=1) / np.maximum(sizes, 1), sizes


def check_radius(radius: int) -> None:
    if isinstance(radius, bool) or not isinstance(radius, int | np.integer) or radius < 0:
        raise ConfigError(f"radius must be a whole number of at least 0, got {radius!r}.")
