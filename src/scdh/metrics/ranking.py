"""Average precision of a ranking by distance, independent of the order of ties.

A ranking by distance is a list of levels; items of a level have the same distance, so their order is arbitrary. With N
items and R relevant ones before a level of n items, ρ of them relevant, the level adds to the sum of precisions at
relevant ranks

    expected over orders   ρ/n · Σ_{i=1..m} (R + 1 + (i−1)·a) / (N + i)        a = (ρ−1)/(n−1), 0 for n = 1
                         = ρ/n · [ (R+1)·H + a·(m − (N+1)·H) ]                 H = H(N+m) − H(N)
    relevant items first   Σ_{j=1..h} (R+j)/(N+j)   = h + (R−N)·H(N … N+h)     h = min(ρ, m)
    relevant items last    the same with N + n − ρ for N                       h = max(0, m − (n−ρ))

where m ≤ n is how much of the level is in the top k (all of it, unless k cuts it). Average precision
is the sum over levels divided by

    "hits"             the relevant items in the top k, as in most published code
    "relevant"         all relevant items
    "min(k, relevant)" the most that the top k could hold

which are the same number for the whole ranking. A query without a hit scores 0.

When k cuts a level, "hits" itself depends on the order of ties: see ``cut_level``.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scdh.errors import ConfigError, DataError, unknown_name
from scdh.index.kernels.threads import run
from scdh.index.search.scan import choose_kernel
from scdh.metrics.cut_level import cut_level_scores, divide
from scdh.metrics.harmonic import harmonic_span

DENOMINATORS = ("hits", "relevant", "min(k, relevant)")
TIES = ("expected", "best", "worst")
# Cells of a slice of rows that is computed at once: about a millisecond and a megabyte.
_SLICE_CELLS = 1 << 15
# A level costs numpy as much as comparing this many pairs of codes.
_PAIRS_OF_A_LEVEL = 128

Floats = NDArray[np.float64]
Counts = NDArray[np.integer]


def average_precision(
    items: Counts,
    relevant: Counts,
    *,
    topk: int | None = None,
    denominator: str = "hits",
    ties: str = "expected",
) -> Floats:
    """Average precision of each query, from the two tables [queries, levels] of ``distance_histograms``.

    >>> items, relevant = np.array([[1, 2]]), np.array([[0, 1]])   # one miss, then a tie of a hit and a miss
    >>> average_precision(items, relevant).round(6).tolist()       # (1/2 + 1/3) / 2
    [0.416667]
    >>> average_precision(items, relevant, ties="best").tolist()
    [0.5]
    """
    return average_precisions(items, relevant, (ties,), topk=topk, denominator=denominator)[0]


def average_precisions(
    items: Counts, relevant: Counts, ties: Sequence[str], *, topk: int | None = None, denominator: str = "hits"
) -> list[Floats]:
    """The same for several orders of ties at once, which share most of the work."""
    check_histograms(items, relevant)
    check_topk(topk)
    if denominator not in DENOMINATORS:
        raise ConfigError(unknown_name("denominator", denominator, DENOMINATORS))
    for order in ties:
        if order not in TIES:
            raise ConfigError(unknown_name("order of ties", order, TIES))

    score = _scores_by_kernel if choose_kernel("levels", items, _PAIRS_OF_A_LEVEL * items.size) else _scores

    def task(part: slice) -> list[Floats]:
        return score(items[part].astype(np.int64), relevant[part].astype(np.int64), topk, denominator, ties)

    parts = [[np.empty(0)] * len(ties), *run([partial(task, part) for part in row_slices(items)])]
    return [np.concatenate(scores) for scores in zip(*parts, strict=True)]


def _scores(n: Counts, rho: Counts, topk: int | None, denominator: str, ties: Sequence[str]) -> list[Floats]:
    before, relevant_before = np.cumsum(n, axis=1) - n, np.cumsum(rho, axis=1) - rho
    total = rho.sum(axis=1)
    in_top = n if topk is None else np.clip(topk - before, 0, n)
    cut = (in_top > 0) & (in_top < n)
    at = np.nonzero(cut)  # at most one level of a query
    scores = []
    for order in ties:
        sums = _level_sums(n, rho, in_top, before, relevant_before, order)
        if topk is None or denominator == "relevant":
            scores.append(divide(sums.sum(axis=1), total))
        elif denominator == "min(k, relevant)":
            scores.append(divide(sums.sum(axis=1), np.minimum(topk, total)))
        else:
            whole = np.where(cut, 0.0, sums).sum(axis=1)
            over_hits = divide(whole, np.where(in_top == n, rho, 0).sum(axis=1))
            parts = (table[at] for table in (before, relevant_before, n, rho, in_top))
            over_hits[at[0]] = cut_level_scores(whole[at[0]], *parts, ties=order)
            scores.append(over_hits)
    return scores


def _scores_by_kernel(n: Counts, rho: Counts, topk: int | None, denominator: str, ties: Sequence[str]) -> list[Floats]:
    """The same for large tables."""
    from scdh.metrics.level_kernels import row_sums

    over_hits = topk is not None and denominator == "hits"
    total = rho.sum(axis=1)
    sums, hits, cut = row_sums(n, rho, np.iinfo(np.int64).max if topk is None else topk, over_hits)
    if not over_hits:
        most = total if topk is None or denominator == "relevant" else np.minimum(topk, total)
        return [divide(sums[TIES.index(order)], most) for order in ties]
    at = np.flatnonzero(cut[4])
    scores = []
    for order in ties:
        order_sums = sums[TIES.index(order)]
        scores.append(divide(order_sums, hits))
        scores[-1][at] = cut_level_scores(order_sums[at], *cut[:, at], ties=order)
    return scores


def _level_sums(n: Counts, rho: Counts, in_top: Counts, before: Counts, relevant_before: Counts, ties: str) -> Floats:
    """What the first ``in_top`` items of each level add to the sum of precisions: the three formulas above."""
    if ties == "expected":
        spread = (rho - 1) / np.maximum(n - 1, 1)
        span = harmonic_span(before, in_top)
        inner = (relevant_before + 1) * span + spread * (in_top - (before + 1) * span)
        return rho / np.maximum(n, 1) * inner
    if ties == "best":
        hits, start = np.minimum(rho, in_top), before
    else:
        hits, start = np.maximum(0, in_top - (n - rho)), before + n - rho
    return hits + (relevant_before - start) * harmonic_span(start, hits)


def row_slices(items: Counts) -> Iterator[slice]:
    """Slices of rows with about the same number of cells each."""
    step = max(1, _SLICE_CELLS // max(1, items.shape[1]))
    return (slice(start, start + step) for start in range(0, len(items), step))


def check_histograms(items: Counts, relevant: Counts) -> None:
    if items.ndim != 2 or items.shape != relevant.shape:
        raise DataError(
            "The two histograms must have the same shape [queries, levels], "
            f"got {list(items.shape)} and {list(relevant.shape)}."
        )


def check_topk(topk: int | None, name: str = "topk") -> None:
    if topk is None:
        return
    if isinstance(topk, bool) or not isinstance(topk, int | np.integer) or topk < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, got {topk!r}; None means all.")
