"""Search by comparing every bit of every pair and sorting everything."""

import numpy as np


def distance(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True))


def search(query_bits, database_bits, ids, k):
    """For each query the list of (distance, id), nearest first, ties by the smaller id."""
    queries, rows = (np.asarray(bits, dtype=bool).tolist() for bits in (query_bits, database_bits))
    answers = []
    for query in queries:
        ranked = sorted((distance(query, row), int(i)) for row, i in zip(rows, ids, strict=True))
        answers.append(ranked[:k])
    return answers


def within(query_bits, database_bits, ids, radius):
    everything = search(query_bits, database_bits, ids, len(ids))
    return [[pair for pair in answer if pair[0] <= radius] for answer in everything]


def weighted_search(query_bits, weights, database_bits, ids, k):
    """The same by the sum of a query's weights over the bits that differ, added byte by byte as the index does."""
    queries, rows = (np.asarray(bits, dtype=bool).tolist() for bits in (query_bits, database_bits))
    answers = []
    for query, own in zip(queries, np.asarray(weights, np.float64).tolist(), strict=True):
        ranked = sorted((weighted_distance(query, own, row), int(i)) for row, i in zip(rows, ids, strict=True))
        answers.append(ranked[:k])
    return answers


def table_search(tables, packed, ids, k):
    """The same by the sum of a query's table entries for the bytes of a code."""
    answers = []
    for own in np.asarray(tables, np.float64).tolist():
        ranked = []
        for row, i in zip(np.asarray(packed).tolist(), ids, strict=True):
            total = 0.0
            for byte, value in enumerate(row):
                total += own[byte][value]
            ranked.append((total, int(i)))
        answers.append(sorted(ranked)[:k])
    return answers


def weighted_distance(query, weights, row):
    total = 0.0
    for byte in range(0, len(query), 8):
        halves = []
        for first in (byte, byte + 4):
            half = 0.0
            for bit in range(first, min(first + 4, len(query))):
                if query[bit] != row[bit]:
                    half += weights[bit]
            halves.append(half)
        total += halves[0] + halves[1]
    return total


def pairs_within(bits, ids, radius):
    """All (smaller id, larger id, distance) of pairs at most ``radius`` apart, in order."""
    rows = list(zip(np.asarray(bits, dtype=bool).tolist(), [int(i) for i in ids], strict=True))
    pairs = [(min(i, j), max(i, j), distance(a, b)) for n, (a, i) in enumerate(rows) for b, j in rows[:n]]
    return sorted(pair for pair in pairs if pair[2] <= radius)


def groups_within(bits, ids, radius):
    """Ids of items connected by such pairs, merged until nothing merges; largest group first, then smallest id."""
    groups = [{int(i)} for i in ids]
    for one, other, _ in pairs_within(bits, ids, radius):
        a = next(group for group in groups if one in group)
        b = next(group for group in groups if other in group)
        if a is not b:
            groups.remove(b)
            a |= b
    found = [sorted(group) for group in groups if len(group) > 1]
    return sorted(found, key=lambda group: (-len(group), group[0]))
