"""Search by comparing every bit of every pair and sorting everything."""


def distance(a, b):
    return sum(1 for x, y in zip(a, b, strict=True) if bool(x) != bool(y))


def search(query_bits, database_bits, ids, k):
    """For each query the list of (distance, id), nearest first, ties by the smaller id."""
    answers = []
    for query in query_bits:
        ranked = sorted((distance(query, row), int(i)) for row, i in zip(database_bits, ids, strict=True))
        answers.append(ranked[:k])
    return answers


def within(query_bits, database_bits, ids, radius):
    everything = search(query_bits, database_bits, ids, len(ids))
    return [[pair for pair in answer if pair[0] <= radius] for answer in everything]
