"""The inner loop of search by tables of bytes: the sums of some hundred rows at a time, then those below the limit."""

from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled, inlined
from scdh.index.kernels.nearest_so_far import keep_nearest, write_nearest

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
    """Distances of the rows start … start + size − 1, byte after byte as everywhere."""
    for j in range(size):
        sums[j] = 0.0
    item = base.itemsize
    for byte in range(tables.shape[0]):
        column, table = base[byte // item, start : start + size], tables[byte]
        shift = base.dtype.type(8 * (byte % item))
        for j in range(size):
            sums[j] += table[np.int64(column[j] >> shift) & 255]
