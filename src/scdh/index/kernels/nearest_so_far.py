"""The k nearest of candidates with real distances, kept in the order of rows."""

from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled


@compiled
def keep_nearest(rows: Any, distances: Any, total: int, k: int, kept: Any) -> float:
    """Move the k nearest of ``total`` candidates to the front, in the order of rows, and return the largest of them."""
    for i in range(total):
        kept[i] = distances[i]
    limit = _smallest(kept, total, k)
    at_limit = k
    for i in range(total):
        at_limit -= np.int64(distances[i] < limit)  # type: ignore[assignment]
    count = 0
    for i in range(total):
        row, d = rows[i], distances[i]
        is_last = np.int64(d == limit) & np.int64(at_limit > 0)
        rows[count], distances[count] = row, d
        at_limit -= is_last  # type: ignore[assignment]
        count += np.int64(d < limit) | is_last  # type: ignore[assignment]
    return limit


@compiled
def _smallest(values: Any, total: int, k: int) -> float:
    """The k-th smallest of the first ``total`` values, whose order is changed (Hoare's selection)."""
    low, high = 0, total - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]  # type: ignore[no-any-return]


@compiled
def write_nearest(found_rows: Any, found: Any, counts: Any, k: int, kept: Any, rows: Any, distances: Any) -> None:
    """The k nearest of the candidates of every query, in the order of rows, into ``rows`` and ``distances`` [q, k]."""
    for i in range(len(counts)):
        total = counts[i]
        if total > k:
            keep_nearest(found_rows[i], found[i], total, k, kept)
            total = k
        for place in range(total):
            rows[i, place] = found_rows[i, place]
            distances[i, place] = found[i, place]
