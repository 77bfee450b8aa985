"""Metrics by walking rankings item by item; ties by trying every order there is, in exact fractions."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np

from tests.reference.slow_search import distance


def is_relevant(query_label, item_label):
    """Labels are whole numbers (−1: none) or rows of zeros and ones."""
    if hasattr(query_label, "__len__"):
        return any(x and y for x, y in zip(query_label, item_label, strict=True))
    return query_label >= 0 and query_label == item_label


def levels_of(query_bits, query_label, database_bits, database_labels, left_out=None):
    """The ranking as a list of levels, each a list of booleans (relevant or not) in the order of the rows."""
    query_bits, database_bits = (np.asarray(bits, dtype=bool).tolist() for bits in (query_bits, database_bits))
    levels = [[] for _ in range(len(query_bits) + 1)]
    for row, (bits, label) in enumerate(zip(database_bits, database_labels, strict=True)):
        if row != left_out:
            levels[distance(query_bits, bits)].append(is_relevant(query_label, label))
    return levels


def average_precision(ranking, topk=None, denominator="hits"):
    """Of one definite ranking, a list of booleans."""
    k = len(ranking) if topk is None else topk
    hits, total = 0, Fraction(0)
    for rank, relevant in enumerate(ranking[:k], start=1):
        if relevant:
            hits += 1
            total += Fraction(hits, rank)
    divisor = {"hits": hits, "relevant": sum(ranking), "min(k, relevant)": min(k, sum(ranking))}[denominator]
    return total / divisor if divisor else Fraction(0)


def every_order(levels):
    """All rankings that the levels allow, each as often as it occurs among the orders of the items."""
    for choice in product(*(permutations(level) for level in levels)):
        yield [relevant for level in choice for relevant in level]


def average_precisions(levels, topk=None, denominator="hits"):
    """(expected, best, worst) over every order of ties."""
    scores = [average_precision(ranking, topk, denominator) for ranking in every_order(levels)]
    return sum(scores) / len(scores), max(scores), min(scores)


def in_row_order(levels, topk=None, denominator="hits"):
    return average_precision([relevant for level in levels for relevant in level], topk, denominator)


def precision_at_k(levels, k):
    shares = [Fraction(sum(ranking[:k]), max(1, min(k, len(ranking)))) for ranking in every_order(levels)]
    return sum(shares) / len(shares)


def recall_at_k(levels, k):
    shares = [Fraction(sum(ranking[:k]), max(1, sum(ranking))) for ranking in every_order(levels)]
    return sum(shares) / len(shares)


def precision_within_radius(levels, radius):
    """(precision, number of items in the ball)."""
    ball = [relevant for level in levels[: radius + 1] for relevant in level]
    return (Fraction(sum(ball), len(ball)) if ball else Fraction(0)), len(ball)
