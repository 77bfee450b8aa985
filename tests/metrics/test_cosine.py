"""Cosine distances against plain loops."""

import math

import numpy as np
import pytest

from scdh.evaluation import evaluate_distances
from scdh.metrics.cosine import COSINE, cosine_distances, nearest_by_cosine, unit_vectors


def slow_cosine(one, other):
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / length if length else 0.0


def test_distances_and_nearest_agree_with_a_loop():
    rng = np.random.default_rng(0)
    queries, database = rng.normal(size=(4, 5)), rng.normal(size=(11, 5))
    database[3] = 0  # equally far from everything
    expected = [[slow_cosine(query, item) for item in database] for query in queries]
    distances = cosine_distances(queries, database)
    np.testing.assert_allclose(distances(slice(0, 4)), 1 - np.array(expected), atol=1e-12)
    np.testing.assert_allclose(distances(slice(1, 3)), distances(slice(0, 4))[1:3], atol=1e-12)
    nearest, cosines = nearest_by_cosine(queries, database, 6)
    for row in range(4):
        assert nearest[row].tolist() == sorted(range(11), key=lambda item: -expected[row][item])[:6]
        np.testing.assert_allclose(cosines[row], sorted(expected[row], reverse=True)[:6], atol=1e-12)
    assert unit_vectors(np.zeros((1, 3))).tolist() == [[0, 0, 0]]


def test_average_precision_of_cosines_agrees_with_a_loop():
    rng = np.random.default_rng(1)
    queries, database = rng.normal(size=(9, 5)), rng.normal(size=(40, 5))
    query_labels, labels = rng.integers(0, 4, 9), rng.integers(0, 3, 40)  # label 3 is in no database row
    distances = cosine_distances(queries, database)
    scores = evaluate_distances(distances, query_labels, labels, distance_name=COSINE)
    for query, label, ap in zip(queries, query_labels, scores.per_query["ap"], strict=True):
        cosines = [slow_cosine(query, item) for item in database]
        hits, total = 0, 0.0
        for rank, at in enumerate(sorted(range(40), key=lambda item: -cosines[item]), start=1):
            if labels[at] == label:
                hits += 1
                total += hits / rank
        assert ap == pytest.approx(total / hits if hits else 0.0)
