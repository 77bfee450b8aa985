"""Ranking by a query's real outputs against adding the weights of every bit that differs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError
from scdh.evaluation import evaluate, evaluate_distances, evaluate_outputs
from scdh.index import HammingIndex, segments
from scdh.index.kernels import threads
from scdh.index.search import queries as query_search
from scdh.index.search import scan, table_sums
from scdh.index.search.table_sums import rank_again
from tests.index.test_hamming import LENGTHS, assert_same, random_bits, random_ids
from tests.reference import slow_search


@pytest.fixture(params=["numpy", "kernels", "three threads"])
def loops(request, monkeypatch):
    monkeypatch.setattr(scan, "WORTH_LOADING", 0 if request.param != "numpy" else 10**15)
    monkeypatch.setattr(threads, "_chosen", 3 if request.param == "three threads" else 1)
    if request.param == "three threads":
        monkeypatch.setattr(scan, "WORDS_FOR_A_THREAD", 1)


def random_outputs(count, bits, seed):
    """Some outputs are exactly 0 or equal, so that there are ties."""
    u = np.random.default_rng(seed).normal(size=(count, bits)).astype(np.float32)
    u[:, ::5] = np.where(u[:, ::5] >= 0, 0.5, -0.5)
    u[0, :: 1 + bits // 3] = 0
    return u


@pytest.mark.parametrize("bits", LENGTHS)
def test_weighted_search_equals_sorting_everything(bits, loops):
    base, ids, u = random_bits(600, bits, 1), random_ids(600, 3), random_outputs(2, bits, 2)
    index = HammingIndex(Codes.from_signs(base), ids=ids)
    expected = slow_search.weighted_search(u >= 0, abs(u), base, ids, 600)
    for k in (1, 20, 600, 10**6):
        hits = index.search(Codes.from_signs(u), k=k, weights=abs(u))
        assert hits.distances.dtype == np.float64
        assert_same(hits, [answer[:k] for answer in expected])


@settings(max_examples=30, deadline=None)
@given(
    bits=st.sampled_from([1, 12, 64, 65]),
    rows=st.integers(1, 600),
    k=st.integers(1, 30),
    scale=st.sampled_from([0.0, 1e-300, 1.0, 1e300]),
    only=st.sampled_from([None, 0.05, 0.6]),
    kernels=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_segments_filters_and_weights_of_any_size(bits, rows, k, scale, only, kernels, seed):
    rng = np.random.default_rng(seed)
    base, ids = random_bits(rows, bits, seed), random_ids(rows, seed)
    u, weights = random_outputs(4, bits, seed), rng.random((4, bits)) * scale
    cut, gone = rng.integers(0, rows + 1), rng.random(rows) < 0.2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MERGED_ROWS", 0)
        patch.setattr(query_search, "ROUND", 3)
        patch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
        index = HammingIndex(Codes.from_signs(base[:cut]), ids=ids[:cut])
        index.add(Codes.from_signs(base[cut:]), ids=ids[cut:])
        index.remove(ids[gone])
        left = np.flatnonzero(~gone)
        if only is not None:
            left = left[rng.random(len(left)) < only]
        hits = index.search(Codes.from_signs(u), k, weights=weights, only=None if only is None else ids[left])
    assert_same(hits, slow_search.weighted_search(u >= 0, weights, base[left], ids[left], k))


def test_equal_weights_give_the_ranking_by_bits(loops):
    codes = Codes.from_signs(random_bits(500, 48, 1))
    index = HammingIndex(codes)
    by_bits = index.search(codes[:5], 50)
    weighted = index.search(codes[:5], 50, weights=np.full((5, 48), 0.25))
    assert np.array_equal(weighted.ids, by_bits.ids)
    assert np.array_equal(weighted.distances, by_bits.distances / 4)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((2, 12)), "shape \\[1, 12\\]"),
        (np.full((1, 12), -1.0), "at least 0"),
        (np.full((1, 12), np.nan), "at least 0"),
        (np.full((1, 12), 1e308), "sum of weights"),
        ([["a"] * 12], "real numbers"),
    ],
)
def test_weights_that_make_no_distance_are_rejected(weights, message):
    codes = Codes.from_signs(random_bits(5, 12, 1))
    with pytest.raises(CodesError, match=message):
        HammingIndex(codes).search(codes[:1], 2, weights=weights)


def test_weighted_distances_have_no_tables():
    codes = Codes.from_signs(random_bits(5, 12, 1))
    with pytest.raises(ConfigError, match="Only Hamming distances are looked up"):
        HammingIndex(codes).search(codes[:1], 2, weights=np.ones((1, 12)), by="tables")


def test_candidates_are_ranked_again_by_weight():
    base, u = random_bits(300, 24, 1), random_outputs(3, 24, 2)
    index, queries = HammingIndex(Codes.from_signs(base)), Codes.from_signs(u)
    hits = index.search(queries, 40)
    again = rank_again(hits, queries, abs(u).astype(np.float64), index.codes_of, 7)
    for query in range(3):
        ids = hits.ids[query]
        (expected,) = slow_search.weighted_search(u[query : query + 1] >= 0, abs(u[[query]]), base[ids], ids, 7)
        assert [(d, i) for i, d in again[query]] == expected


def test_scores_by_outputs_are_those_of_the_real_distances():
    base, u = random_bits(200, 16, 1), random_outputs(10, 16, 2)
    labels, query_labels = np.arange(200) % 4, np.arange(10) % 4
    everything = slow_search.weighted_search(u >= 0, abs(u), base, range(200), 200)
    table = np.array([[d for _, d in sorted((i, d) for d, i in answer)] for answer in everything])
    scores = evaluate_outputs(Codes.from_signs(u), u, query_labels, Codes.from_signs(base), labels)
    expected = evaluate_distances(table, query_labels, labels)
    assert scores.map == expected.map
    assert scores.map_worst == expected.map_worst
    # With outputs of one size only, ties are those of Hamming distances.
    flat = np.where(u >= 0, 0.5, -0.5)
    by_bits = evaluate(Codes.from_signs(u), query_labels, Codes.from_signs(base), labels)
    by_outputs = evaluate_outputs(Codes.from_signs(u), flat, query_labels, Codes.from_signs(base), labels)
    assert by_outputs.map == pytest.approx(by_bits.map, abs=1e-12)
    assert by_outputs.map_best == pytest.approx(by_bits.map_best, abs=1e-12)


def test_many_hits_take_no_more_memory_than_few(monkeypatch):
    """A task keeps twice k candidates of each of its queries, with row and distance."""
    rows, k = 400_000, 300_000
    words, tables = np.zeros((1, rows), np.uint64), np.zeros((64, 16, 16))
    taken = []

    def task(words, tables, span, k, mask):
        taken.append(2 * k * len(tables) * 16)
        return np.zeros((len(tables), 1), np.int64), np.zeros((len(tables), 1))

    monkeypatch.setattr(table_sums, "_task", task)
    table_sums._by_kernel(words, tables, k, None)
    assert max(taken) <= 64 << 20
