"""Confidence interval of a mean over queries."""

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 1000
FEW_QUERIES = 50  # below, scores say that they are uncertain
_DRAWN_AT_ONCE = 1 << 20


def mean_interval(
    values: NDArray[np.floating], level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean: quantiles of the means of samples drawn with replacement.

    It covers the choice of the queries, not the training of the model or the choice of the database.

    Args:
        values: float [q], one per query.
        level: share of the means inside the interval.
        resamples: number of samples, each of q values.
        seed: of the draws; the same values give the same interval.

    >>> mean_interval(np.array([0.5, 0.5, 0.5]))
    (0.5, 0.5)
    """
    values, rng = np.asarray(values, np.float64), np.random.default_rng(seed)
    rows = max(1, _DRAWN_AT_ONCE // len(values))
    means = [
        values[rng.integers(len(values), size=(min(rows, resamples - start), len(values)), dtype=np.int32)].mean(axis=1)
        for start in range(0, resamples, rows)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
