"""Average precision over "hits" when k cuts a level of ties: then the number of hits itself depends on their order.

The last level has n items, ρ of them relevant, and m of the n are in the top k; h of these m are relevant, and h has a
hypergeometric distribution. Given h, the part in the top k is an ordinary level of m items with h relevant ones, which
adds A(h) to the sum of precisions S so far, and

    AP(h) = (S + A(h)) / (R + h)         N items, R of them relevant, before the level

The expectation over h is a finite sum. Best and worst are the extremes over h as well, because with this denominator
fewer hits can score higher ([+ − +] gives 5/6, [+ − −] gives 1); so worst ≤ expected ≤ best holds here too. In the
best and in the worst order one more hit adds more than the one before it did: A is convex, so AP(h) falls and then
rises. Its largest value is at one end, and its smallest where one more hit first adds no less than the mean so far.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.metrics.harmonic import harmonic_span

# Values of h of all queries that are computed together: some tens of megabytes.
_MOST_CELLS = 1 << 19

Floats = NDArray[np.float64]
Counts = NDArray[np.integer]


def cut_level_scores(
    before_sum: Floats, N: Counts, R: Counts, n: Counts, rho: Counts, m: Counts, *, ties: str
) -> Floats:
    """Average precision of each query, all arguments one value per query with 0 < m < n."""
    if len(N) == 0:
        return np.empty(0)
    fewest, most = np.maximum(0, m - (n - rho)), np.minimum(m, rho)
    if ties == "best":
        # h + (R − N)·(H(N + h) − H(N)), as for a whole level
        ends = [divide(before_sum + h + (R - N) * harmonic_span(N, h), R + h) for h in (fewest, most)]
        return np.maximum(*ends)
    if ties == "worst":
        return _smallest(before_sum, N, R, m, fewest, most)
    return _expected(before_sum, N, R, n, rho, m, fewest, most)


def _smallest(before_sum: Floats, N: Counts, R: Counts, m: Counts, low: Counts, high: Counts) -> Floats:
    """The smallest AP(h) with all hits last, by halving the range where it still falls."""

    def added(h: Counts) -> Floats:
        start = N + m - h
        return h + (R - start) * harmonic_span(start, h)

    # Without a hit the score is 0, the smallest possible.
    low, high = low.copy(), high.copy()
    without_hits = (R + low) == 0
    while np.any(low < high):
        middle = (low + high) // 2
        more = added(middle + 1) - added(middle)
        rises = more * (R + middle) >= before_sum + added(middle)
        high = np.where(rises, middle, high)
        low = np.where(rises, low, np.minimum(middle + 1, high))
    return np.where(without_hits, 0.0, divide(before_sum + added(low), R + low))


def _expected(
    before_sum: Floats, N: Counts, R: Counts, n: Counts, rho: Counts, m: Counts, fewest: Counts, most: Counts
) -> Floats:
    """Σ_h P(h)·AP(h) over the h that matter: beyond 10 standard deviations and 40 more, P(h) is below 1e-30."""
    mean = m * rho / n
    deviation = np.sqrt(mean * (1 - rho / n) * (n - m) / (n - 1))
    reach = np.ceil(10 * deviation) + 40
    low = np.maximum(fewest, np.floor(mean - reach)).astype(np.int64)
    high = np.minimum(most, np.ceil(mean + reach)).astype(np.int64)
    width = int((high - low).max()) + 1
    if width * len(N) > _MOST_CELLS and len(N) > 1:
        columns: Any = (before_sum, N, R, n, rho, m, fewest, most)
        halves = slice(len(N) // 2), slice(len(N) // 2, None)
        return np.concatenate([_expected(*(column[half] for column in columns)) for half in halves])
    h = low[:, None] + np.arange(width)
    N, R, n, rho, m = (column[:, None] for column in (N, R, n, rho, m))
    inside = h <= high[:, None]
    span = harmonic_span(N, m)
    spread = (h - 1) / np.maximum(m - 1, 1)
    added = h / m * ((R + 1) * span + spread * (m - (N + 1) * span))
    # P(h+1)/P(h) = (ρ−h)(m−h) / ((h+1)(n−ρ−m+h+1)), as logarithms, so that nothing overflows.
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log((rho - h) * (m - h)) - np.log((h + 1) * (n - rho - m + h + 1))
    steps[~inside] = 0.0
    logs = np.zeros(h.shape)
    np.cumsum(steps[:, :-1], axis=1, out=logs[:, 1:])
    logs[~inside] = -np.inf
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    scores = divide(before_sum[:, None] + added, R + h)
    return (weights * np.where(inside, scores, 0.0)).sum(axis=1) / weights.sum(axis=1)


def divide(sums: Floats, counts: Counts) -> Floats:
    """Sums divided by counts, 0 where the count is 0."""
    return np.where(counts > 0, sums / np.maximum(counts, 1), 0.0)
