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

from scdh.index.kernels.byte_transposing import cut_block, distance_tables, empty_planes
from scdh.index.kernels.candidates import LIMIT, no_candidates, offer, take_best
from scdh.index.kernels.chunk_distances import CHUNK as CUT_CHUNK
from scdh.index.kernels.chunk_distances import chunk_below, way, which_bytes_below
from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.processor import SHUFFLES, WORDS
from scdh.index.kernels.wide_vectors import CHUNK, any_below, any_word_below, lowest_bit, popcount, which_below

# Bytes of a block of codes: a third of the first cache, which also has the state of the queries.
_BLOCK_BYTES = 16384
# With fewer queries, cutting codes into planes costs more than it saves.
_FEWEST_QUERIES = 4


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
    base: Any,
    queries: Any,
    first: int,
    last: int,
    k: int,
    bits: int,
    code_bytes: int,
    allowed: Any,
    rows: Any,
    distances: Any,
) -> Any:
    """The k nearest of rows first … last − 1 of each query, by (distance, row), into ``rows``, ``distances`` [q, k].

    Returns how many each query has. Rows come in ascending order, so once k candidates are at distances up to the
    limit, a later row is a candidate only at a distance strictly below it.
    """
    count = queries.shape[0]
    found = no_candidates(count, k, bits)
    if way() != WORDS and count >= _FEWEST_QUERIES and last - first >= CUT_CHUNK:
        _nearest_in_planes(base, queries, first, last, k, code_bytes, allowed, found)
    else:
        step = block_rows(base) if count > 1 else max(1, last - first)
        for start in range(first, last, step):
            for i in range(count):
                nearest_in_words(base, queries, i, start, min(last, start + step), k, allowed, found)
    return take_best(found, k, bits, rows, distances)


@compiled
def _nearest_in_planes(
    base: Any, queries: Any, first: int, last: int, k: int, code_bytes: int, allowed: Any, found: Any
) -> None:
    rows, distances, at_distance, states = found
    nibbles = way() == SHUFFLES
    planes, tables = empty_planes(base, nibbles), distance_tables(queries, code_bytes)
    near = np.empty(CUT_CHUNK, np.uint8)
    step = planes.shape[0] * CUT_CHUNK
    for start in range(first, last, step):
        stop = min(last, start + step)
        cut_block(base, start, stop, planes, nibbles)
        for i in range(queries.shape[0]):
            limit = states[i, LIMIT]
            for chunk in range((stop - start + CUT_CHUNK - 1) // CUT_CHUNK):
                column = start + chunk * CUT_CHUNK
                if limit == 0:
                    break
                if limit > 255:
                    nearest_in_words(base, queries, i, column, min(stop, column + CUT_CHUNK), k, allowed, found)
                    limit = states[i, LIMIT]
                    continue
                if not chunk_below(planes, chunk, tables, i, limit, near):
                    continue
                for part in range(0, min(CUT_CHUNK, stop - column), 64):
                    mask = which_bytes_below(near, part, limit)
                    if column + part + 64 > stop:
                        mask &= ~(~np.uint64(0) << np.uint64(stop - column - part))
                    if mask:
                        limit = offer(
                            mask,
                            near[part:],
                            column + part,
                            k,
                            allowed,
                            rows[i],
                            distances[i],
                            at_distance[i],
                            states[i],
                        )


@compiled
def nearest_in_words(base: Any, queries: Any, i: int, start: int, stop: int, k: int, allowed: Any, found: Any) -> None:
    rows, distances, at_distance, states = found
    near = np.empty(CHUNK, np.int32)
    limit = states[i, LIMIT]
    column = start
    while column < stop and limit > 0:
        # Separate loops, short enough for the compiler to keep their values in registers.
        if base.shape[0] == 1:
            while column + CHUNK <= stop and not any_word_below(base, column, queries, i, limit):
                column += CHUNK
        else:
            while column + CHUNK <= stop and not any_below(base, column, queries, i, limit):
                column += CHUNK
        size = min(CHUNK, stop - column)
        mask = np.uint64(0)
        if size == CHUNK:
            mask = which_below(base, column, queries, i, limit)
        else:
            for j in range(size):
                is_near = distance(base, column + j, queries, i) < limit
                mask |= np.uint64(is_near) << np.uint64(j)
        if mask:
            rest = mask
            while rest:
                place = lowest_bit(rest)
                rest &= rest - np.uint64(1)
                near[place] = distance(base, column + place, queries, i)
            limit = offer(mask, near, column, k, allowed, rows[i], distances[i], at_distance[i], states[i])
        column += size


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
    for i in range(len(keys)):  # copying a slice would take two seconds more to compile
        longer[i] = keys[i]
    return longer
