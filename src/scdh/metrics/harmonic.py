"""Differences of harmonic numbers, which give the sums of precisions over a level of ties in closed form."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

EXACT_BELOW = 64
TABLE = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, EXACT_BELOW + 1))])


def harmonic_span(before: ArrayLike, count: ArrayLike) -> NDArray[Any]:
    """H(before + count) − H(before) = Σ_{i=1..count} 1/(before + i), for whole numbers ≥ 0.

    Up to 64 it comes from a table; beyond, from Euler's series H(x) = ln x + γ + 1/2x − 1/12x² + 1/120x⁴ −
    1/252x⁶, whose error there is below 1e-16. The logarithms are subtracted inside ``log1p``: subtracting two large
    harmonic numbers would lose the digits that matter if a few items follow a million.

    >>> harmonic_span(2, 2).round(6).item()      # 1/3 + 1/4
    0.583333
    """
    low = np.asarray(before, dtype=np.int64)
    high = low + np.asarray(count, dtype=np.int64)
    from_table = TABLE[np.minimum(high, EXACT_BELOW)] - TABLE[np.minimum(low, EXACT_BELOW)]
    start = np.maximum(low, EXACT_BELOW).astype(np.float64)
    stop = np.maximum(high, EXACT_BELOW).astype(np.float64)
    return from_table + np.log1p((stop - start) / start) + (_tail(stop) - _tail(start))


def _tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
    inverse = 1.0 / x
    square = inverse * inverse
    return 0.5 * inverse - square * (1 / 12 - square * (1 / 120 - square / 252))
