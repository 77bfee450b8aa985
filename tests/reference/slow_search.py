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
