"""The inner loops of search: every code is compared with every query, as fast as the processor counts bits.

The database is read in blocks that stay in the first cache, and each block is compared with all queries of a call, so
memory is read once for hundreds of queries. A query has a limit, and only chunks of 64 rows with a distance below it
are examined row by row. There is no heap: candidates are counted by distance, and when k of them are nearer than the
limit, the limit is lowered. Kernels run without the interpreter's lock; ``scan`` divides the work among threads.

``base`` is [words of a code, n], ``queries`` [q, words of a code]; ``allowed`` is boolean [n], or empty if all rows may
be found.
"""

from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.vectors import CHUNK, any_below, lowest_bit, popcount, which_below

# Bytes of a block of codes: a third of the first cache, which also has the state of the queries.
_BLOCK_BYTES = 16384


@compiled
def block_rows(base: Any) -> int:
    """Rows of a block: whole chunks, so that only the last chunk of a call can be shorter."""
    return max(1, _BLOCK_BYTES // (base.shape[0] * base.itemsize * CHUNK)) * CHUNK


@compiled
def distance(base: Any, row: int, queries: Any, query: int) -> int:
    total = 0
    for word in range(base.shape[0]):
        total += np.int64(popcount(base[word, row] ^ queries[query, word]))  # type: ignore[assignment]
    return total


@compiled
def nearest(
    base: Any, queries: Any, first: int, last: int, k: int, bits: int, allowed: Any, rows: Any, distances: Any
) -> Any:
    """The k nearest of rows first … last − 1 of each query, by (distance, row), into ``rows``, ``distances`` [q, k].

    Returns how many each query has. Rows come in ascending order, so once k candidates are at distances up to the
    limit, a later row is a candidate only at a distance strictly below it.
    """
    count = queries.shape[0]
    capacity = 2 * k
    candidate_rows = np.empty((count, capacity), np.int64)
    candidate_distances = np.empty((count, capacity), np.int32)
    counts = np.zeros(count, np.int64)
    # nearer[i] candidates are below limits[i], of which at_distance[i, d] are at distance d.
    nearer = np.zeros(count, np.int64)
    at_distance = np.zeros((count, bits + 1), np.int64)
    limits = np.full(count, bits + 1)
    step = block_rows(base)
    for start in range(first, last, step):
        stop = min(last, start + step)
        for i in range(count):
            limit = limits[i]
            column = start
            while column < stop and limit > 0:
                size = min(CHUNK, stop - column)
                mask = np.uint64(0)
                if size < CHUNK:
                    for j in range(size):
                        near = distance(base, column + j, queries, i) < limit
                        mask |= np.uint64(near) << np.uint64(j)
                elif any_below(base, column, queries, i, limit):
                    mask = which_below(base, column, queries, i, limit)
                while mask:
                    row = column + lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    if allowed.size and not allowed[row]:
                        continue
                    d = distance(base, row, queries, i)
                    if d >= limit:
                        continue
                    if counts[i] == capacity:
                        counts[i] = _keep_best(candidate_rows[i], candidate_distances[i], k, limit, nearer[i])
                    candidate_rows[i, counts[i]] = row
                    candidate_distances[i, counts[i]] = d
                    counts[i] += 1
                    at_distance[i, d] += 1
                    nearer[i] += 1
                    while nearer[i] >= k:
                        limit -= 1
                        nearer[i] -= at_distance[i, limit]
                column += size
            limits[i] = limit
    for i in range(count):
        if counts[i] > k:
            counts[i] = _keep_best(candidate_rows[i], candidate_distances[i], k, limits[i], nearer[i])
        _by_distance(candidate_rows[i], candidate_distances[i], counts[i], bits, rows[i], distances[i])
    return counts


@compiled
def _keep_best(rows: Any, distances: Any, k: int, limit: int, nearer: int) -> int:
    """Move the k best candidates of a query to the front: all below the limit, and the first ones at it."""
    at_limit = k - nearer
    count = 0
    for i in range(len(rows)):
        if distances[i] < limit or (distances[i] == limit and at_limit > 0):
            at_limit -= distances[i] == limit
            rows[count] = rows[i]
            distances[count] = distances[i]
            count += 1
            if count == k:
                break
    return count


@compiled
def _by_distance(rows: Any, distances: Any, count: int, bits: int, out_rows: Any, out_distances: Any) -> None:
    """A counting sort: rows are in ascending order and stay so within a distance."""
    places = np.zeros(bits + 2, np.int64)
    for i in range(count):
        places[distances[i] + 1] += 1
    for d in range(1, bits + 1):
        places[d] += places[d - 1]
    for i in range(count):
        place = places[distances[i]]
        places[distances[i]] += 1
        out_rows[place] = rows[i]
        out_distances[place] = distances[i]


@compiled
def within(base: Any, queries: Any, first: int, last: int, radius: int, bits: int, allowed: Any) -> Any:
    """All pairs at most ``radius`` apart, each as one sortable number: (query · (bits + 1) + distance) · n + row."""
    keys = np.empty(1024, np.int64)
    total = 0
    step = block_rows(base)
    for start in range(first, last, step):
        stop = min(last, start + step)
        for i in range(queries.shape[0]):
            for column in range(start, stop, CHUNK):
                size = min(CHUNK, stop - column)
                if size == CHUNK:
                    if not any_below(base, column, queries, i, radius + 1):
                        continue
                    mask = which_below(base, column, queries, i, radius + 1)
                else:
                    mask = np.uint64(0)
                    for j in range(size):
                        near = distance(base, column + j, queries, i) <= radius
                        mask |= np.uint64(near) << np.uint64(j)
                while mask:
                    row = column + lowest_bit(mask)
                    mask &= mask - np.uint64(1)
                    if allowed.size and not allowed[row]:
                        continue
                    if total == len(keys):
                        keys = twice_as_long(keys)
                    d = distance(base, row, queries, i)
                    keys[total] = (i * (bits + 1) + d) * base.shape[1] + row
                    total += 1
    return keys[:total]


@compiled
def twice_as_long(keys: Any) -> Any:
    longer = np.empty(2 * len(keys), keys.dtype)
    longer[: len(keys)] = keys
    return longer
