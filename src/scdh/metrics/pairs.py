"""How well distances tell similar pairs from dissimilar ones, where items have no labels."""

import numpy as np
from numpy.typing import ArrayLike


def pair_auc(distances: ArrayLike, similar: ArrayLike) -> float:
    """Area under the ROC curve: the probability that a similar pair is closer than a dissimilar one, a tie counts half.

        AUC = (Σ_{similar} rank − n₁(n₁ + 1)/2) / (n₁ n₀),   ranks from far to near, ties share their mean rank

    Args:
        distances: float or int [m].
        similar: [m], probabilities that the two items are similar; above ½ they count as similar.

    Returns:
        float; NaN if all pairs are of one kind.

    >>> pair_auc([1, 2, 2, 5], [1, 1, 0, 0])
    0.875
    """
    is_similar = np.asarray(similar) > 0.5
    ones, zeros = int(is_similar.sum()), int((~is_similar).sum())
    if not ones or not zeros:
        return float("nan")
    _, level, counts = np.unique(-np.asarray(distances, np.float64), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[level]
    return float((ranks[is_similar].sum() - ones * (ones + 1) / 2) / (ones * zeros))
