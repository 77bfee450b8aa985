"""Scores of real-valued distances: defined as for Hamming distances, with ties of equal distances; cosines."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.errors import ConfigError, DataError
from scdh.evaluation import TIES, RankingScores, Scores, evaluate, evaluate_distances
from scdh.index.search import scan
from scdh.metrics import real_distances
from scdh.metrics.cosine import COSINE, cosine_distances, unit_vectors
from scdh.metrics.ranking import DENOMINATORS
from tests.reference import slow_metrics as slow

# Distances with few different values, not whole, some of them not finite: many ties.
VALUES = np.array([-np.inf, -0.75, 0.0, -0.0, 0.1, 0.1 + 1e-17, 0.3, 0.1 + 0.2, np.inf])


def small_case(seed, many=False, queries=3, items=6):
    rng = np.random.default_rng(seed)
    distances = VALUES[rng.integers(0, len(VALUES), (queries, items))]
    if many:
        return distances, rng.integers(0, 2, (queries, 4)), rng.integers(0, 2, (items, 4))
    return distances, rng.integers(-1, 2, queries), rng.integers(-1, 2, items)


def slow_levels(distances, query_label, labels, left_out=None):
    """The items grouped by equal distance, nearest first."""
    rows = [row for row in range(len(labels)) if row != left_out]
    values = sorted({float(distances[row]) for row in rows})
    return [[slow.is_relevant(query_label, labels[row]) for row in rows if distances[row] == v] for v in values]


def assert_slow_scores(scores, case, topk, denominator, ties, alone=False):
    distances, query_labels, labels = case
    wanted = []
    for i, row in enumerate(distances):
        levels = slow_levels(row, query_labels[i], labels, i if alone else None)
        mean, best, worst = slow.average_precisions(levels, topk, denominator)
        by_row = slow.in_row_order(levels, topk, denominator)
        ap = {"expected": mean, "best": best, "worst": worst, "order": by_row}[ties]
        relevant = sum(map(sum, levels))
        wanted.append((ap, best, worst, relevant, slow.precision_at_k(levels, 2), slow.recall_at_k(levels, 2)))
    columns = np.array(wanted, dtype=float).T
    for name, column in zip(("ap", "ap_best", "ap_worst", "relevant"), columns[:4], strict=True):
        assert scores.per_query[name] == pytest.approx(column, abs=1e-12), name
    assert (scores.map, scores.map_best, scores.map_worst) == pytest.approx(columns[:3].mean(axis=1), abs=1e-12)
    assert scores.precision_at_k(2) == pytest.approx(columns[4].mean())
    assert scores.recall_at_k(2) == pytest.approx(columns[5].mean())


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    many=st.booleans(),
    topk=st.none() | st.integers(1, 7),
    denominator=st.sampled_from(DENOMINATORS),
    ties=st.sampled_from(TIES),
    cells=st.sampled_from([1, 7, 12, 1 << 20]),
    kernels=st.booleans(),
)
def test_scores_equal_the_slow_ones(seed, many, topk, denominator, ties, cells, kernels):
    case = small_case(seed, many)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real_distances, "BLOCK_CELLS", cells)
        patch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
        scores = evaluate_distances(*case, topk=topk, denominator=denominator, ties=ties)
    assert_slow_scores(scores, case, topk, denominator, ties)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    many=st.booleans(),
    topk=st.none() | st.integers(1, 7),
    denominator=st.sampled_from(DENOMINATORS),
    ties=st.sampled_from(TIES),
)
def test_leave_one_out_equals_removing_the_item(seed, many, topk, denominator, ties):
    distances, _, labels = small_case(seed, many, queries=6)
    case = distances, labels, labels
    scores = evaluate_distances(*case, topk=topk, denominator=denominator, ties=ties, leave_one_out=True)
    assert_slow_scores(scores, case, topk, denominator, ties, alone=True)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("ties", TIES)
def test_hamming_distances_score_as_codes_do(kernels, kind, ties, monkeypatch):
    monkeypatch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
    monkeypatch.setattr(real_distances, "BLOCK_CELLS", 3000)
    rng = np.random.default_rng(0)
    for bits, topk, many, alone in ((1, None, False, False), (12, 100, True, True), (64, 7, False, False)):
        bits_of_codes = rng.random((300, bits)) < 0.5
        codes = Codes.from_signs(bits_of_codes)
        labels = rng.integers(0, 2, (300, 5)) if many else rng.integers(-1, 5, 300)
        queries, query_labels = (codes, labels) if alone else (codes[:40], labels[:40])
        distances = (queries.unpack()[:, None] != codes.unpack()[None]).sum(axis=2).astype(kind)
        for denominator in DENOMINATORS:
            options = {"topk": topk, "denominator": denominator, "ties": ties, "leave_one_out": alone}
            wanted = evaluate(queries, query_labels, codes, labels, **options)
            scores = evaluate_distances(distances, query_labels, labels, **options)
            for name, values in scores.per_query.items():
                # Where all sums run level by level, every digit is the same. Sums of numpy run pairwise, so there the
                # last digit depends on how many empty levels or other queries are in a table.
                if kernels and ties != "order" and (topk is None or denominator != "hits"):
                    assert values.tolist() == wanted.per_query[name].tolist(), name
                assert values == pytest.approx(wanted.per_query[name], rel=1e-13, abs=1e-15), name
            k = [1, 5, 50, 299, 300, 10**6]
            assert scores.precision_at_k(k) == pytest.approx(wanted.precision_at_k(k), rel=1e-12)
            assert scores.recall_at_k(k) == pytest.approx(wanted.recall_at_k(k), rel=1e-12)


def test_a_function_of_the_rows_gives_what_the_whole_table_gives(monkeypatch):
    distances, query_labels, labels = small_case(5, queries=10, items=20)
    calls = []

    def block(rows):
        calls.append((rows.start, rows.stop))
        return distances[rows]

    monkeypatch.setattr(real_distances, "BLOCK_CELLS", 60)
    scores = evaluate_distances(block, query_labels, labels)
    assert calls == [(0, 3), (3, 6), (6, 9), (9, 10)]
    whole = evaluate_distances(distances, query_labels, labels)
    assert scores.to_dict(per_query=True) == whole.to_dict(per_query=True)
    assert scores.precision_at_k(range(1, 21)).tolist() == whole.precision_at_k(range(1, 21)).tolist()


def test_the_result_says_what_it_is():
    distances, query_labels, labels = small_case(0, queries=4, items=20)
    scores = evaluate_distances(distances, query_labels, labels, topk=5, distance_name="cosine distance")
    assert type(scores) is RankingScores
    assert issubclass(Scores, RankingScores)
    assert not hasattr(scores, "precision_at_radius")
    text = scores.definition["words"]
    assert text.startswith("Items are ranked by cosine distance to each query")
    assert "radius" not in text
    assert (scores.definition["topk"], scores.definition["queries"], scores.definition["database"]) == (5, 4, 20)
    content = json.loads(json.dumps(scores.to_dict(per_query=True)))
    assert list(content) == ["map", "map_best", "map_worst", "definition", "per_query"]
    assert "MAP@5" in str(scores)
    assert "4 queries, 20 items\n" in str(scores)
    with pytest.raises(ConfigError, match="k must be"):
        scores.precision_at_k(0)


def test_distances_without_ties_have_one_score():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 500)
    scores = evaluate_distances(rng.normal(size=(20, 500)), labels[:20], labels, topk=100)
    assert scores.map == pytest.approx(scores.map_best, rel=1e-12)
    assert scores.map == pytest.approx(scores.map_worst, rel=1e-12)
    alone = evaluate_distances([[0.5]], [1], [1], leave_one_out=True)
    assert alone.map == alone.precision_at_k(3) == 0


TABLE = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("data", "options", "kind", "message"),
    [
        ((TABLE, [0], [0, 1, 2]), {}, DataError, "query_labels .* 1 for 2"),
        ((TABLE, [0, 1], [0, 1]), {}, DataError, "database_labels .* 2 for 3"),
        ((TABLE[0], [0, 1], [0, 1, 2]), {}, DataError, r"shape \[queries, items\], got shape \[3\]"),
        (([[1.0], [1.0, 2.0]], [0, 1], [0, 1]), {}, DataError, "shape"),
        ((lambda rows: TABLE[:1], [0, 1], [0, 1, 2]), {}, DataError, r"queries 0 to 1 must have shape \[2, 3\]"),
        ((TABLE * np.nan, [0, 1], [0, 1, 2]), {}, DataError, "query 0 to item 0 is NaN"),
        ((TABLE > 1, [0, 1], [0, 1, 2]), {}, DataError, "type bool"),
        ((TABLE * 1j, [0, 1], [0, 1, 2]), {}, DataError, "type complex128"),
        ((TABLE[:0], [], [0, 1, 2]), {}, DataError, "0 queries"),
        ((lambda rows: TABLE, [], [0, 1, 2]), {}, DataError, "0 queries"),
        ((TABLE, [0, 1], np.eye(3)), {}, DataError, "same kind"),
        ((TABLE, [0, 1], [0, 1, 2]), {"topk": 0}, ConfigError, "topk"),
        ((TABLE, [0, 1], [0, 1, 2]), {"ties": "random"}, ConfigError, "order of ties"),
        ((TABLE, [0, 1], [0, 1, 2]), {"denominator": "all"}, ConfigError, "denominator"),
        ((TABLE, [0, 1], [0, 1, 2]), {"leave_one_out": True}, DataError, "labels differ"),
    ],
)
def test_mistakes_get_one_sentence(data, options, kind, message):
    with pytest.raises(kind, match=message) as caught:
        evaluate_distances(*data, **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def slow_cosine(one, other):
    length = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / length if length else 0.0


def test_distances_agree_with_a_loop():
    rng = np.random.default_rng(0)
    queries, database = rng.normal(size=(4, 5)), rng.normal(size=(11, 5))
    database[3] = 0  # equally far from everything
    expected = [[slow_cosine(query, item) for item in database] for query in queries]
    distances = cosine_distances(queries, database)
    np.testing.assert_allclose(distances(slice(0, 4)), 1 - np.array(expected), atol=1e-12)
    np.testing.assert_allclose(distances(slice(1, 3)), distances(slice(0, 4))[1:3], atol=1e-12)
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
