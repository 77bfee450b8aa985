"""Rankings from histograms, ties, statistics of codes and intervals, against slow, obvious twins."""

import doctest
import importlib
import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh import metrics
from scdh.codes import Codes
from scdh.errors import ConfigError, DataError
from scdh.index.kernels import threads
from scdh.index.search import scan
from scdh.metrics import histograms as histograms_module
from scdh.metrics.bootstrap import mean_interval
from scdh.metrics.cut_level import cut_level_scores
from scdh.metrics.harmonic import harmonic_span
from scdh.metrics.ranking import DENOMINATORS
from tests.reference import slow_metrics as slow

LENGTHS = [1, 7, 8, 12, 13, 48, 63, 64, 65, 128, 1000]

# Rankings small enough to try every order: at most 6 items in up to 4 levels.
small_rankings = st.lists(st.lists(st.booleans(), max_size=4), min_size=1, max_size=4).filter(
    lambda levels: sum(map(len, levels)) <= 6
)


def histograms(levels):
    return np.array([[len(level) for level in levels]]), np.array([[sum(level) for level in levels]])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    levels=small_rankings,
    topk=st.none() | st.integers(1, 8),
    denominator=st.sampled_from(DENOMINATORS),
    kernels=st.booleans(),
)
def test_average_precision_equals_trying_every_order(levels, topk, denominator, kernels):
    expected, best, worst = slow.average_precisions(levels, topk, denominator)
    tables = histograms(levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
        for ties, value in (("expected", expected), ("best", best), ("worst", worst)):
            found = metrics.average_precision(*tables, topk=topk, denominator=denominator, ties=ties)
            assert found == pytest.approx([float(value)], abs=1e-12), ties


@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
@pytest.mark.parametrize("topk", [None, 1, 3, 50, 5000, 10**6])
@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_compiled_sums_over_levels_equal_those_of_numpy(ties, topk, denominator, monkeypatch):
    rng = np.random.default_rng(0)
    items = rng.integers(0, 10 ** rng.integers(0, 7, (50, 40))) * (rng.random((50, 40)) < 0.6)
    relevant = (items * rng.random((50, 40)) ** 3).astype(np.int64)
    found = []
    for enough in (0, 10**15):
        monkeypatch.setattr(scan, "WORTH_LOADING", enough)
        found.append(metrics.average_precision(items, relevant, topk=topk, denominator=denominator, ties=ties))
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert found[0].max() > 0 or (topk, ties) == (1, "worst")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_worst_score_of_a_cut_level_is_the_smallest_over_all_numbers_of_hits(data):
    """The halving relies on the score falling and then rising; here every number of hits is tried."""
    N = data.draw(st.integers(0, 300))
    R = data.draw(st.integers(0, N))
    n = data.draw(st.integers(2, 300))
    m, rho = data.draw(st.integers(1, n - 1)), data.draw(st.integers(0, n))
    # Between all hits as late as possible and all of them first.
    before = data.draw(st.floats(0, 1)) * R
    scores = []
    for hits in range(max(0, m - (n - rho)), min(m, rho) + 1):
        added = sum((R + j) / (N + m - hits + j) for j in range(1, hits + 1))
        scores.append((before + added) / (R + hits) if R + hits else 0.0)
    columns = [np.array([value]) for value in (before, N, R, n, rho, m)]
    assert cut_level_scores(*columns, ties="worst") == pytest.approx([min(scores)], abs=1e-12)


@pytest.mark.parametrize("labels", [np.full(3, 2**64 - 1, np.uint64), np.full(3, 1e30)])
def test_labels_beyond_64_bits_are_rejected(labels):
    with pytest.raises(DataError, match="64 bits"):
        metrics.check_labels(labels, 3)


def test_precision_and_recall_by_radius():
    items, relevant = np.array([[0, 2, 2], [1, 0, 3]]), np.array([[0, 1, 1], [1, 0, 0]])
    precision, recall = metrics.precision_recall_by_radius(items, relevant)
    assert precision == pytest.approx([(0 + 1) / 2, (1 / 2 + 1) / 2, (2 / 4 + 1 / 4) / 2])
    assert recall == pytest.approx([(0 + 1) / 2, (1 / 2 + 1) / 2, 1])


@settings(max_examples=60, deadline=None)
@given(levels=small_rankings, k=st.integers(1, 8))
def test_precision_and_recall_at_k_equal_trying_every_order(levels, k):
    tables = histograms(levels)
    assert metrics.precision_at_k(*tables, k) == pytest.approx([float(slow.precision_at_k(levels, k))])
    assert metrics.recall_at_k(*tables, k) == pytest.approx([float(slow.recall_at_k(levels, k))])


def test_average_precision_of_all_small_rankings_and_all_cuts():
    """Three levels of up to 3 items, every number of relevant ones, cut at every k: no corner is left to chance."""
    shapes = [(n, rho) for n in range(4) for rho in range(n + 1)]
    rankings = [
        [[i < rho for i in range(n)] for n, rho in chosen]
        for chosen in product(shapes, repeat=3)
        if chosen[1][0] and chosen[2][0] and sum(n for n, _ in chosen) <= 5
    ]
    tables = [np.concatenate(parts) for parts in zip(*map(histograms, rankings), strict=True)]
    for k, denominator in product(range(1, 6), DENOMINATORS):
        wanted = [slow.average_precisions(levels, k, denominator) for levels in rankings]
        for column, ties in enumerate(("expected", "best", "worst")):
            found = metrics.average_precision(*tables, topk=k, denominator=denominator, ties=ties)
            assert found == pytest.approx([float(row[column]) for row in wanted], abs=1e-12)


def test_the_paradox_of_the_denominator_hits():
    """[+ − +] scores 5/6 and [+ − −] scores 1, so the best order of the last tie puts the miss first."""
    tables = np.array([[1, 1, 2]]), np.array([[1, 0, 1]])
    scores = {ties: metrics.average_precision(*tables, topk=3, ties=ties)[0] for ties in ("best", "expected", "worst")}
    assert scores == pytest.approx({"best": 1.0, "expected": 11 / 12, "worst": 5 / 6})


def test_large_levels_against_exact_fractions():
    """The closed form against the plain sum, where harmonic numbers are large and close to each other."""
    items, relevant = [3, 900, 40, 0, 2000], [1, 300, 40, 0, 7]
    before = relevant_before = 0
    total = Fraction(0)
    for n, rho in zip(items, relevant, strict=True):
        slope = Fraction(rho - 1, n - 1) if n > 1 else Fraction(0)
        for i in range(1, n + 1):
            total += Fraction(rho, n) * (relevant_before + 1 + (i - 1) * slope) / (before + i)
        before, relevant_before = before + n, relevant_before + rho
    found = metrics.average_precision(np.array([items]), np.array([relevant]))
    assert found == pytest.approx([float(total / sum(relevant))], abs=1e-13)


def test_a_cut_in_a_large_level_against_sampled_orders():
    items, relevant, k = np.array([[20, 400]]), np.array([[9, 130]]), 150
    rng = np.random.default_rng(0)
    first, second = np.arange(20) < 9, np.arange(400) < 130
    sampled = []
    for _ in range(4000):
        ranking = np.concatenate([rng.permutation(first), rng.permutation(second)])[:k]
        precision = np.cumsum(ranking) / np.arange(1, k + 1)
        sampled.append(precision[ranking].sum() / ranking.sum())
    found = metrics.average_precision(items, relevant, topk=k)[0]
    assert abs(found - np.mean(sampled)) < 5 * np.std(sampled) / math.sqrt(len(sampled))


def test_a_million_items_in_one_level_stay_exact():
    items, relevant = np.array([[0, 10**6, 10**6]]), np.array([[0, 10**6, 0]])
    assert metrics.average_precision(items, relevant) == pytest.approx([1.0], abs=1e-12)
    for topk in (1, 999_999, 10**6, 1_500_000):
        assert metrics.average_precision(items, relevant, topk=topk) == pytest.approx([1.0], abs=1e-12)


@given(before=st.integers(0, 5000), count=st.integers(0, 300))
def test_harmonic_span_equals_its_sum(before, count):
    exact = math.fsum(1 / (before + i) for i in range(1, count + 1))
    assert harmonic_span(before, count) == pytest.approx(exact, rel=1e-13, abs=1e-18)


def test_harmonic_span_keeps_its_digits_after_a_billion():
    assert harmonic_span(10**9, 3) == pytest.approx(sum(1 / (10**9 + i) for i in (1, 2, 3)), rel=1e-12)


def random_case(seed, bits, queries=4, items=30, classes=3, many=False):
    rng = np.random.default_rng(seed)
    centres = rng.random((classes, bits)) < 0.5

    def draw(count):
        kind = rng.integers(0, classes, count)
        values = centres[kind] ^ (rng.random((count, bits)) < 0.2)
        if many:
            return values, rng.random((count, classes)) < 0.3
        return values, np.where(rng.random(count) < 0.2, -1, kind)

    return *draw(queries), *draw(items)


@pytest.mark.parametrize("bits", LENGTHS)
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("loops", ["numpy", "kernels"])
@pytest.mark.parametrize("classes", [3, 70])
def test_histograms_equal_counting_one_by_one(bits, many, loops, classes, monkeypatch):
    monkeypatch.setattr(scan, "WORTH_LOADING", 0 if loops == "kernels" else 10**15)
    monkeypatch.setattr(threads, "_chosen", 3)
    query, query_labels, base, base_labels = random_case(bits, bits, items=150, classes=classes, many=many)
    items, relevant = metrics.distance_histograms(
        Codes.from_signs(query), query_labels, Codes.from_signs(base), base_labels
    )
    assert items.shape == relevant.shape == (4, bits + 1)
    for i in range(4):
        levels = slow.levels_of(query[i], query_labels[i], base, base_labels)
        assert items[i].tolist() == [len(level) for level in levels]
        assert relevant[i].tolist() == [sum(level) for level in levels]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    bits=st.sampled_from([1, 12, 64, 254, 255]),
    many=st.booleans(),
    columns=st.integers(1, 40),
    pairs=st.integers(1, 200),
    topk=st.none() | st.integers(1, 40),
    denominator=st.sampled_from(DENOMINATORS),
    alone=st.booleans(),
    kernels=st.booleans(),
    count=st.integers(1, 140),
)
def test_row_order_and_blocks(seed, bits, many, columns, pairs, topk, denominator, alone, kernels, count):
    query, query_labels, base, base_labels = random_case(seed, bits, items=count, many=many)
    if alone:
        query, query_labels = base, base_labels
    data = Codes.from_signs(query), query_labels, Codes.from_signs(base), base_labels
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histograms_module, "_BLOCK_COLUMNS", columns)
        patch.setattr(histograms_module, "BLOCK_PAIRS", pairs)
        patch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
        tables = metrics.distance_histograms(*data, leave_one_out=alone)
        found = metrics.ordered_average_precision(
            *data, *tables, topk=topk, denominator=denominator, leave_one_out=alone
        )
    for i in range(len(query)):
        levels = slow.levels_of(query[i], query_labels[i], base, base_labels, left_out=i if alone else None)
        assert tables[0][i].tolist() == [len(level) for level in levels]
        assert tables[1][i].tolist() == [sum(level) for level in levels]
        assert found[i] == pytest.approx(float(slow.in_row_order(levels, topk, denominator)), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(levels=small_rankings, radius=st.integers(0, 5))
def test_precision_within_radius(levels, radius):
    precision, size = slow.precision_within_radius(levels, radius)
    found, sizes = metrics.precision_within_radius(*histograms(levels), radius)
    assert found == pytest.approx([float(precision)])
    assert sizes.tolist() == [size]


def test_no_queries_and_no_levels_taken():
    none = np.zeros((0, 5), dtype=np.int64)
    assert metrics.average_precision(none, none, topk=3).shape == (0,)
    assert metrics.precision_at_k(none, none, 3).shape == (0,)
    empty = np.zeros((2, 5), dtype=np.int64)
    for ties in ("expected", "best", "worst"):
        assert metrics.average_precision(empty, empty, topk=3, ties=ties).tolist() == [0, 0]


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("bits", [1, 13, 64])
def test_statistics_equal_plain_formulas(rows, bits):
    rng = np.random.default_rng(rows)
    values = rng.random((rows, bits)) < 0.4
    labels = rng.integers(-1, 3, rows)
    codes = Codes.from_signs(values)
    share = values.mean(axis=0)
    assert metrics.bit_balance(codes) == pytest.approx(share)
    entropy = [-sum(x * math.log2(x) for x in (p, 1 - p) if x > 0) for p in share]
    assert metrics.bit_entropy(codes) == pytest.approx(entropy)
    assert metrics.distinct_codes(codes) == len({tuple(row) for row in values})
    varying = [j for j in range(bits) if 0 < share[j] < 1]
    pairs = [abs(np.corrcoef(values[:, j], values[:, k])[0, 1]) for j, k in combinations(varying, 2)]
    assert metrics.bit_correlation(codes) == pytest.approx(np.mean(pairs) if pairs else 0.0)
    together = {True: [], False: []}
    for i, j in combinations(range(rows), 2):
        if labels[i] >= 0 and labels[j] >= 0:
            together[bool(labels[i] == labels[j])].append((values[i] != values[j]).sum())
    means = [np.mean(together[kind]) if together[kind] else math.nan for kind in (True, False)]
    assert metrics.class_distances(codes, labels) == pytest.approx(means, nan_ok=True)
    hot = np.eye(3, dtype=int)[np.maximum(labels, 0)] * (labels >= 0)[:, None]
    assert metrics.class_distances(codes, hot) == pytest.approx(means, nan_ok=True)


def test_statistics_of_nothing_of_a_sample_and_as_a_summary():
    rng = np.random.default_rng(0)
    codes = Codes.from_signs(rng.random((500, 12)) < 0.5)
    labels = rng.integers(0, 2, (500, 4))
    sampled = metrics.class_distances(codes, labels, sample=200)
    assert sampled == metrics.class_distances(codes, labels, sample=200)
    assert sampled == pytest.approx(metrics.class_distances(codes, labels), abs=0.2)
    summary = metrics.code_statistics(codes, labels)
    assert summary["items"] == 500
    assert summary["mean_bit_entropy"] > 0.98
    assert metrics.code_statistics(codes[:1], [0])["distance_within_classes"] is None
    assert metrics.distinct_codes(codes[:0]) == 0
    with pytest.raises(DataError, match="0 rows"):
        metrics.bit_balance(codes[:0])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda t: metrics.average_precision(t, t[:, :1]), DataError, "same shape"),
        (lambda t: metrics.average_precision(t, t, topk=0), ConfigError, "at least 1"),
        (lambda t: metrics.average_precision(t, t, denominator="hit"), ConfigError, "did you mean 'hits'"),
        (lambda t: metrics.average_precision(t, t, ties="order"), ConfigError, "order of ties"),
        (lambda t: metrics.precision_at_k(t, t, 0), ConfigError, "at least 1"),
        (lambda t: metrics.precision_within_radius(t, t, -1), ConfigError, "at least 0"),
    ],
)
def test_mistakes_get_one_sentence(call, kind, words):
    with pytest.raises(kind, match=words):
        call(np.ones((2, 3), dtype=np.int64))


@pytest.mark.parametrize(
    "module",
    [
        "codes.codes",
        "evaluation",
        "index.hamming",
        "index.kernels.distances",
        "metrics.harmonic",
        "metrics.histograms",
        "metrics.relevance",
        "metrics.ordered",
        "metrics.returned",
        "metrics.ranking",
        "metrics.statistics",
    ],
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"scdh.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_buckets_are_counted_largest_first():
    codes = Codes.from_bits(np.array([[0, 1], [1, 1], [0, 1], [0, 1], [1, 1], [0, 0]], np.uint8))
    assert metrics.bucket_sizes(codes).tolist() == [3, 2, 1]
    assert metrics.bucket_sizes(codes[:0]).tolist() == []
    assert metrics.distinct_codes(codes) == 3


def test_interval_agrees_with_a_loop_over_samples() -> None:
    values = np.random.default_rng(1).beta(0.5, 0.5, 200)
    rng = np.random.default_rng(7)
    means = sorted(float(np.mean([values[rng.integers(200)] for _ in range(200)])) for _ in range(400))
    low, high = mean_interval(values)
    assert low == pytest.approx(means[10], abs=0.012)
    assert high == pytest.approx(means[389], abs=0.012)


def test_interval_covers_the_true_mean_about_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        low, high = mean_interval(rng.random(100), resamples=300)
        covered += low <= 0.5 <= high
    assert 180 <= covered <= 200


def test_interval_depends_on_the_seed_only() -> None:
    values = np.random.default_rng(0).random(30)
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval(values) != mean_interval(values, seed=1)
    assert mean_interval(np.array([0.25])) == (0.25, 0.25)
    many = np.random.default_rng(0).random((1 << 20) + 1)
    low, high = mean_interval(many, resamples=3)
    assert high - low < 0.01
