"""Precision and recall of returned items: the first k, expected over the order of ties, or all within a radius."""

import numpy as np
from numpy.typing import NDArray

from scdh.errors import ConfigError
from scdh.metrics.ranking import check_histograms, check_topk, row_slices


def expected_hits(items: NDArray[np.integer], relevant: NDArray[np.integer], k: int) -> NDArray[np.float64]:
    """E[relevant items in the top k] = Σ_levels ρ · m/n, with m of the level's n items in the top k.

    A level that k cuts gives each of its items the same chance m/n to be returned.
    """
    check_histograms(items, relevant)
    check_topk(k, "k")
    hits = np.zeros(len(items))
    for part in row_slices(items):
        n = items[part].astype(np.int64)
        in_top = np.clip(k - (np.cumsum(n, axis=1) - n), 0, n)
        hits[part] = (relevant[part] * (in_top / np.maximum(n, 1))).sum(axis=1)
    return hits


def precision_recall_by_radius(
    items: NDArray[np.integer], relevant: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean precision and recall over queries of all items within radius 0, 1, … bits; no tie can matter here.

    As in published precision–recall curves by hash look-up, an empty ball has precision 0 and stays in the mean.

    >>> precision, recall = precision_recall_by_radius(np.array([[1, 3]]), np.array([[1, 1]]))
    >>> precision.tolist(), recall.tolist()
    ([1.0, 0.5], [0.5, 1.0])
    """
    check_histograms(items, relevant)
    precision, recall = np.zeros(items.shape[1]), np.zeros(items.shape[1])
    for part in row_slices(items):
        returned, hits = np.cumsum(items[part], axis=1), np.cumsum(relevant[part], axis=1)
        precision += (hits / np.maximum(returned, 1)).sum(axis=0)
        recall += (hits / np.maximum(hits[:, -1:], 1)).sum(axis=0)
    return precision / max(len(items), 1), recall / max(len(items), 1)


def precision_at_k(items: NDArray[np.integer], relevant: NDArray[np.integer], k: int) -> NDArray[np.float64]:
    """Share of relevant items among the first k of each query; among all, if there are fewer than k.

    >>> precision_at_k(np.array([[1, 4]]), np.array([[1, 2]]), 3).tolist()      # (1 + 2 · 2/4) / 3
    [0.6666666666666666]
    """
    returned = np.minimum(k, items.sum(axis=1))
    return expected_hits(items, relevant, k) / np.maximum(returned, 1)


def recall_at_k(items: NDArray[np.integer], relevant: NDArray[np.integer], k: int) -> NDArray[np.float64]:
    """Share of all relevant items that the first k hold, for each query; 0 where nothing is relevant.

    >>> recall_at_k(np.array([[1, 4]]), np.array([[1, 2]]), 3).round(4).tolist()
    [0.6667]
    """
    return expected_hits(items, relevant, k) / np.maximum(relevant.sum(axis=1), 1)


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
