"""The sums over levels of ties of ``ranking``, compiled: for large tables numpy's many passes are the slow part."""

import math
from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled
from scdh.metrics.harmonic import EXACT_BELOW, TABLE


@compiled
def row_sums(items: Any, relevant: Any, topk: int, split_cut: bool) -> Any:
    """For each query: the sums of precisions for the three orders of ``ranking.TIES`` [3, q], the hits in whole levels,
    and N, R, n, ρ, m [5, q] of the level that ``topk`` cuts (m = 0: none). ``split_cut`` keeps that level out of the
    sums.
    """
    count = items.shape[0]
    sums = np.zeros((3, count))
    hits = np.zeros(count, np.int64)
    cut = np.zeros((5, count), np.int64)
    for i in range(count):
        before, relevant_before = 0, 0
        for level in range(items.shape[1]):
            n, rho = items[i, level], relevant[i, level]
            if n == 0:
                continue
            in_top = min(n, topk - before)
            if in_top <= 0:
                break
            whole = in_top == n
            if not whole:
                cut[0, i] = before
                cut[1, i] = relevant_before
                cut[2, i] = n
                cut[3, i] = rho
                cut[4, i] = in_top
            else:
                hits[i] += rho
            if rho > 0 and (whole or not split_cut):
                for order in range(3):
                    sums[order, i] += _level_sum(n, rho, in_top, before, relevant_before, order)
            before += n
            relevant_before += rho
    return sums, hits, cut


@compiled
def _level_sum(n: int, rho: int, in_top: int, before: int, relevant_before: int, order: int) -> float:
    """The formulas are in ``ranking``."""
    if order == 0:
        spread = (rho - 1) / max(n - 1, 1)
        span = _harmonic_span(before, in_top)
        return rho / n * ((relevant_before + 1) * span + spread * (in_top - (before + 1) * span))
    if order == 1:
        hits, start = min(rho, in_top), before
    else:
        hits, start = max(0, in_top - (n - rho)), before + n - rho
    return hits + (relevant_before - start) * _harmonic_span(start, hits)


@compiled
def _harmonic_span(before: int, count: int) -> float:
    last = before + count
    span = TABLE[min(last, EXACT_BELOW)] - TABLE[min(before, EXACT_BELOW)]
    if last > EXACT_BELOW:
        low, high = float(max(before, EXACT_BELOW)), float(last)
        span += math.log1p((high - low) / low) + (_tail(high) - _tail(low))
    return float(span)


@compiled
def _tail(x: float) -> float:
    inverse = 1.0 / x
    square = inverse * inverse
    return 0.5 * inverse - square * (1 / 12 - square * (1 / 120 - square / 252))
