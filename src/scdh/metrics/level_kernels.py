"""The sums over levels of ties of ``ranking``, compiled: for large tables numpy's many passes are the slow part."""

import math
from typing import Any

import numpy as np

from scdh.index.compiled import compiled
from scdh.metrics.harmonic import EXACT_BELOW, TABLE


@compiled
def level_sums(n: Any, rho: Any, taken: Any, before: Any, relevant_before: Any, order: int) -> Any:
    """``ranking.TIES[order]`` for each level of a row of levels; the formulas stand there."""
    sums = np.empty(len(n))
    for i in range(len(n)):
        if order == 0:
            spread = (rho[i] - 1) / max(n[i] - 1, 1)
            span = _harmonic_span(before[i], taken[i])
            inner = (relevant_before[i] + 1) * span + spread * (taken[i] - (before[i] + 1) * span)
            sums[i] = rho[i] / max(n[i], 1) * inner
            continue
        if order == 1:
            hits, start = min(rho[i], taken[i]), before[i]
        else:
            hits, start = max(0, taken[i] - (n[i] - rho[i])), before[i] + n[i] - rho[i]
        sums[i] = hits + (relevant_before[i] - start) * _harmonic_span(start, hits)
    return sums


@compiled
def _harmonic_span(before: int, count: int) -> float:
    last = before + count
    span = TABLE[min(last, EXACT_BELOW)] - TABLE[min(before, EXACT_BELOW)]
    if last > EXACT_BELOW:
        low, high = float(max(before, EXACT_BELOW)), float(last)
        span += math.log1p((high - low) / low) + (_tail(high) - _tail(low))
    return span


@compiled
def _tail(x: float) -> float:
    inverse = 1.0 / x
    square = inverse * inverse
    return 0.5 * inverse - square * (1 / 12 - square * (1 / 120 - square / 252))
