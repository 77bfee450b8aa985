"""The inner loops of search by weighted distances.

Most rows are ruled out by bytes: the tables of a query are scaled so that the limit, the k-th smallest distance so far,
becomes 254, and rounded down. If a distance is below the limit, then so is the sum of its scaled entries, and the sum
of the rounded ones is at most 254; so rows whose sum is 255 or more are farther (the errors of floating point are a
million times smaller than the gap between 254 and 255). Exact sums are taken of the other rows only.
"""

from typing import Any

import numpy as np

from scdh.index.kernels.byte_transposing import cut_block, empty_planes
from scdh.index.kernels.chunk_distances import CHUNK, weighted_chunk_below, which_bytes_below
from scdh.index.kernels.compiled import compiled, inlined
from scdh.index.kernels.wide_vectors import lowest_bit


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


# Sums of bytes below this may belong to a distance below the limit, which is scaled to one less.
_RULED_OUT = 255


@compiled
def nearest_by_weight(
    base: Any, tables: Any, first: int, last: int, k: int, allowed: Any, rows: Any, distances: Any
) -> None:
    """The k nearest of rows first … last − 1 of each query, in the order of rows, into ``rows``, ``distances`` [q, k].

    ``tables`` is float64 [q, 2 · bytes, 16], as made by ``weight_tables``. Where there are fewer than k rows, the
    others keep what is in ``rows`` and ``distances``. The caller sorts: a sort would take longer to compile than all
    the rest, as would copying a slice.
    """
    count = tables.shape[0]
    found_rows, found = np.empty((count, 2 * k + CHUNK), np.int64), np.empty((count, 2 * k + CHUNK))
    counts, limits = np.zeros(count, np.int64), np.full(count, np.inf)
    small = np.zeros(tables.shape, np.uint8)
    planes = empty_planes(base, True)
    near = np.zeros(CHUNK, np.uint8)
    kept = np.empty(2 * k + CHUNK)
    step = planes.shape[0] * CHUNK
    for start in range(first, last, step):
        stop = min(last, start + step)
        cut_block(base, start, stop, planes, True)
        for i in range(count):
            for chunk in range((stop - start + CHUNK - 1) // CHUNK):
                column = start + chunk * CHUNK
                # While there are fewer than k candidates, the small tables are zeros and every row is examined.
                if limits[i] == 0 or not weighted_chunk_below(planes, chunk, small, i, _RULED_OUT, near):
                    continue
                total = counts[i]
                for part in range(0, min(CHUNK, stop - column), 64):
                    mask = which_bytes_below(near, part, _RULED_OUT)
                    if column + part + 64 > stop:
                        mask &= ~(~np.uint64(0) << np.uint64(stop - column - part))
                    while mask:
                        row = column + part + lowest_bit(mask)
                        mask &= mask - np.uint64(1)
                        if allowed.size and not allowed[row]:
                            continue
                        d = _distance(base, row, tables, i)
                        found_rows[i, total], found[i, total] = row, d
                        total += np.int64(d < limits[i])
                if total >= 2 * k or (total >= k and limits[i] == np.inf):
                    limits[i] = keep_nearest(found_rows[i], found[i], total, k, kept)
                    total = k
                    _scale(tables[i], limits[i], small[i])
                counts[i] = total
    write_nearest(found_rows, found, counts, k, kept, rows, distances)


@inlined
def _distance(base: Any, row: int, tables: Any, query: int) -> float:
    total = 0.0
    size = base.itemsize
    for byte in range(tables.shape[1] // 2):
        value = np.int64(base[byte // size, row] >> base.dtype.type(8 * (byte % size))) & 255
        total += tables[query, 2 * byte, value & 15] + tables[query, 2 * byte + 1, value >> 4]
    return total


@compiled
def _scale(tables: Any, limit: float, small: Any) -> None:
    """The tables in bytes, rounded down, where the limit is 254."""
    for plane in range(tables.shape[0]):
        for value in range(16):
            entry = tables[plane, value]
            # A distance of exactly 0 stays 0 for any limit.
            small[plane, value] = np.uint8(min(entry / limit * 254.0, 255.0)) if entry > 0 and limit > 0 else 0


# Rows whose sums are taken together: they stay in the first cache next to the tables of a query.
_ROWS = 256
# Rows that a query is compared with before the next one is: few enough to stay in the second cache for all queries,
# many enough for the tables of a query to be read from there once.
_BLOCK = 32 * _ROWS


@compiled
def nearest_by_bytes(
    base: Any, tables: Any, first: int, last: int, k: int, allowed: Any, rows: Any, distances: Any
) -> None:
    """The k nearest of rows first … last − 1 of each query, in the order of rows, into ``rows``, ``distances`` [q, k].

    ``tables`` is float64 [q, bytes, 256]. Where there are fewer than k rows, the others keep what is in ``rows`` and
    ``distances``; the caller sorts.
    """
    count = tables.shape[0]
    found_rows, found = np.empty((count, 2 * k + _ROWS), np.int64), np.empty((count, 2 * k + _ROWS))
    counts, limits = np.zeros(count, np.int64), np.full(count, np.inf)
    sums, kept = np.empty(_ROWS), np.empty(2 * k + _ROWS)
    for block in range(first, last, _BLOCK):
        for i in range(count):
            total, limit = counts[i], limits[i]
            for start in range(block, min(last, block + _BLOCK), _ROWS):
                size = min(_ROWS, last - start)
                _add_up(base, start, size, tables[i], sums)
                for j in range(size):
                    d = sums[j]
                    found_rows[i, total], found[i, total] = start + j, d
                    total += np.int64(d < limit and (allowed.size == 0 or allowed[start + j]))
                if total >= 2 * k or (total >= k and limit == np.inf):
                    limit = keep_nearest(found_rows[i], found[i], total, k, kept)
                    total = k
            counts[i], limits[i] = total, limit
    write_nearest(found_rows, found, counts, k, kept, rows, distances)


@inlined
def _add_up(base: Any, start: int, size: int, tables: Any, sums: Any) -> None:
    """Distances of the rows start … start + size − 1, summed byte after byte as everywhere."""
    for j in range(size):
        sums[j] = 0.0
    item = base.itemsize
    for byte in range(tables.shape[0]):
        column, table = base[byte // item, start : start + size], tables[byte]
        shift = base.dtype.type(8 * (byte % item))
        for j in range(size):
            sums[j] += table[np.int64(column[j] >> shift) & 255]
