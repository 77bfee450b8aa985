"""The inner loops of multi-index hashing: build tables of code pieces, and look up pieces near those of a query.

A code is cut into m pieces. Table t has, for each value of piece t, the rows with that value: ``rows`` [m, n] ordered
by value, and ``starts``, where the rows of each value begin. Look-ups go in steps 0, 1, 2 …: step s = j·m + t looks up
all values of piece t at exactly j bits from that of the query. After step s every row at distance ≤ s has been met,
because a row that was not met differs in at least s + 1 bits. A row that several tables have is counted at its first
step only; the distances of its pieces show which step that is, so no list of rows is needed.

``masks`` [m, words of a code] has the bits of each piece, ``cuts`` [m + 1] where pieces begin, ``offsets`` [m] where
the starts of each table begin.
"""

from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.scanning import twice_as_long
from scdh.index.kernels.wide_vectors import popcount

# The number of queries whose first look-ups are prefetched together.
_AHEAD = 16


@compiled
def piece(words: Any, first: int, last: int) -> Any:
    """Bits first … last − 1 of one code as a number; at most 32 of them, so at most two words are touched."""
    width = 8 * words.itemsize
    word, shift = first // width, first % width
    value = np.uint64(words[word]) >> np.uint64(shift)
    if shift + last - first > width:
        value |= np.uint64(words[word + 1]) << np.uint64(width - shift)
    return value & ((np.uint64(1) << np.uint64(last - first)) - np.uint64(1))


@compiled
def piece_keys(base: Any, first: int, last: int) -> Any:
    """Value of the piece and row of each code as one number to sort by."""
    keys = np.empty(base.shape[1], np.uint64)
    for row in range(base.shape[1]):
        keys[row] = piece(base[:, row], first, last) << np.uint64(32) | np.uint64(row)
    return keys


@compiled
def fill_table(keys: Any, starts: Any, rows: Any) -> None:
    """The table of sorted keys: rows of value v are rows[starts[v]] … rows[starts[v + 1] − 1]."""
    value = 0
    for place in range(len(keys)):
        key_value = np.int64(keys[place] >> np.uint64(32))
        while value <= key_value:
            starts[value] = place
            value += 1
        rows[place] = np.uint32(keys[place] & np.uint64(0xFFFFFFFF))
    starts[value:] = len(keys)


@compiled
def _read_ahead(base: Any, queries: Any, start: int, tables: Any, spans: Any) -> None:
    """Read what the first look-ups of the next queries need into the cache; ``spans`` [queries, m, 2] is temporary.

    A look-up is a chain of three reads from memory, each of which waits for the one before. Here the same step of many
    chains is read together, which takes hardly longer than one chain.
    """
    starts, rows, offsets, cuts, _ = tables
    stop, pieces = min(start + _AHEAD, queries.shape[0]), len(cuts) - 1
    for i in range(start, stop):
        for table in range(pieces):
            place = offsets[table] + np.int64(piece(queries[i], cuts[table], cuts[table + 1]))
            spans[i - start, table, 0] = starts[place]
            spans[i - start, table, 1] = starts[place + 1]
    total = np.int64(0)
    for i in range(stop - start):
        for table in range(pieces):
            for at in range(spans[i, table, 0], min(spans[i, table, 1], spans[i, table, 0] + 16)):
                total += np.int64(base[0, rows[table, at]])
    spans[0, 0, 0] = total


@compiled
def _probe(base: Any, query: Any, step: int, tables: Any, allowed: Any, budget: int, keys: Any, total: int) -> Any:
    """One step: append new rows to ``keys`` as distance · n + row; returns keys, their number and the budget left."""
    starts, rows, offsets, cuts, masks = tables
    pieces = len(cuts) - 1
    flips, table = step // pieces, step % pieces
    size = cuts[table + 1] - cuts[table]
    if flips > size:
        return keys, total, budget
    query_piece = piece(query, cuts[table], cuts[table + 1])
    # All numbers of ``size`` bits with ``flips`` of them set, in ascending order.
    change = (np.uint64(1) << np.uint64(flips)) - np.uint64(1)
    end = np.uint64(1) << np.uint64(size)
    while change < end and budget >= 0:
        place = offsets[table] + np.int64(query_piece ^ change)
        first, last = np.int64(starts[place]), np.int64(starts[place + 1])
        budget -= 1 + last - first  # type: ignore[assignment]
        for at in range(first, last):
            row = np.int64(rows[table, at])
            if allowed.size and not allowed[row]:
                continue
            distance = 0
            new = True
            for other in range(pieces):
                apart = 0
                for word in range(base.shape[0]):
                    differing = (base[word, row] ^ query[word]) & masks[other, word]
                    apart += np.int64(popcount(differing))  # type: ignore[assignment]
                distance += apart
                if apart * pieces + other < step:
                    new = False
                    break
            if new:
                if total == len(keys):
                    keys = twice_as_long(keys)
                keys[total] = distance * base.shape[1] + row
                total += 1
        if change == 0:
            break
        lowest = change & (~change + np.uint64(1))
        ripple = change + lowest
        change = ripple | (((change ^ ripple) >> np.uint64(2)) // lowest)
    return keys, total, budget


@compiled
def nearest_by_tables(
    base: Any, queries: Any, k: int, bits: int, tables: Any, allowed: Any, budget: int, rows: Any, distances: Any
) -> Any:
    """The k nearest of each query into ``rows``, ``distances`` [q, k]; returns which queries stayed in the budget.

    ``bits`` is the number of bits of all pieces, which is the largest possible distance.
    """
    done = np.zeros(queries.shape[0], np.bool_)
    keys = np.empty(1024, np.int64)
    at_distance = np.zeros(bits + 1, np.int64)
    spans = np.empty((_AHEAD, len(tables[3]) - 1, 2), np.int64)
    n = base.shape[1]
    for i in range(queries.shape[0]):
        if i % _AHEAD == 0:
            _read_ahead(base, queries, i, tables, spans)
        left = budget
        total = 0
        counted = 0
        met = 0
        at_distance[:] = 0
        for step in range(bits + 1):
            keys, total, left = _probe(base, queries[i], step, tables, allowed, left, keys, total)
            if left < 0:
                break
            while counted < total:
                at_distance[keys[counted] // n] += 1
                counted += 1
            met += at_distance[step]
            if met >= k:
                done[i] = True
                break
        if done[i]:
            best = np.sort(keys[:total])
            for j in range(k):
                distances[i, j] = best[j] // n
                rows[i, j] = best[j] % n
    return done


@compiled
def within_by_tables(base: Any, queries: Any, radius: int, bits: int, tables: Any, allowed: Any, budget: int) -> Any:
    """All pairs at most ``radius`` apart as (query · (bits + 1) + distance) · n + row, and which queries were done."""
    done = np.zeros(queries.shape[0], np.bool_)
    pairs = np.empty(1024, np.int64)
    count = 0
    keys = np.empty(1024, np.int64)
    spans = np.empty((_AHEAD, len(tables[3]) - 1, 2), np.int64)
    n = base.shape[1]
    for i in range(queries.shape[0]):
        if i % _AHEAD == 0:
            _read_ahead(base, queries, i, tables, spans)
        left, total = budget, 0
        for step in range(radius + 1):
            keys, total, left = _probe(base, queries[i], step, tables, allowed, left, keys, total)
            if left < 0:
                break
        done[i] = left >= 0
        if not done[i]:
            continue
        for j in range(total):
            if keys[j] // n <= radius:
                if count == len(pairs):
                    pairs = twice_as_long(pairs)
                pairs[count] = i * (bits + 1) * n + keys[j]
                count += 1
    return pairs[:count], done
