"""Ranking by a query's real outputs and by tables of bytes, against adding the weight of every bit and byte."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.codes import RANKING, Codes
from scdh.errors import CodesError, ConfigError
from scdh.evaluation import evaluate, evaluate_distances, evaluate_outputs
from scdh.index import HammingIndex, byte_tables, segments
from scdh.index.search import queries as query_search
from scdh.index.search import scan, table_sums
from scdh.index.search.table_sums import rank_again
from scdh.index.store import IndexWriter
from scdh.index.ties import items_at_sum
from tests.index.test_hamming import assert_same, every_way, loops, random_bits, random_ids  # noqa: F401 - a fixture
from tests.reference import slow_search


def random_outputs(count, bits, seed):
    """Some outputs are exactly 0 or equal, so that there are ties."""
    u = np.random.default_rng(seed).normal(size=(count, bits)).astype(np.float32)
    u[:, ::5] = np.where(u[:, ::5] >= 0, 0.5, -0.5)
    u[0, :: 1 + bits // 3] = 0
    return u


@every_way
def test_weighted_search_equals_sorting_everything(bits, loops):  # noqa: F811
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


def test_equal_weights_give_the_ranking_by_bits(loops):  # noqa: F811
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


OWN = {RANKING: "a distance of its own"}


def random_tables(count, bits, seed):
    """Few different values, some below 0, so that there are ties."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (count, -(-bits // 8), 256)) / 4 + 1e-9 * rng.integers(0, 2, (count, 1, 256))


def own_codes(bits_array):
    return Codes.from_signs(bits_array, metadata=OWN)


@every_way
def test_search_by_tables_equals_sorting_everything(bits, loops):  # noqa: F811
    base, ids, tables = own_codes(random_bits(600, bits, 1)), random_ids(600, 3), random_tables(2, bits, 2)
    index = HammingIndex(base, ids=ids)
    expected = slow_search.table_search(tables, base.packed, ids, 600)
    for k in (1, 20, 600, 10**6):
        hits = index.search(base[:2], k=k, byte_tables=tables)
        assert hits.distances.dtype == np.float64
        assert_same(hits, [answer[:k] for answer in expected])


@settings(max_examples=30, deadline=None)
@given(
    bits=st.sampled_from([1, 12, 13, 64, 65, 128]),
    rows=st.integers(1, 900),
    k=st.integers(1, 30),
    only=st.sampled_from([None, 0.05, 0.6]),
    kernels=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_segments_filters_and_tables_a_few_queries_at_a_time(bits, rows, k, only, kernels, seed):
    rng = np.random.default_rng(seed)
    base, ids, tables = own_codes(random_bits(rows, bits, seed)), random_ids(rows, seed), random_tables(4, bits, seed)
    cut, gone = rng.integers(0, rows + 1), rng.random(rows) < 0.2
    asked = []

    def tables_of(queries):
        asked.append(len(range(4)[queries]))
        return tables[queries]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MERGED_ROWS", 0)
        patch.setattr(byte_tables, "TABLE_BYTES", 3 * tables[0].nbytes)
        patch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
        index = HammingIndex(base[:cut], ids=ids[:cut])
        index.add(base[cut:], ids=ids[cut:])
        index.remove(ids[gone])
        left = np.flatnonzero(~gone)
        if only is not None:
            left = left[rng.random(len(left)) < only]
        queries = own_codes(random_bits(4, bits, 9))
        hits = index.search(queries, k, byte_tables=tables_of, only=None if only is None else ids[left])
    assert max(asked, default=3) <= 3
    assert_same(hits, slow_search.table_search(tables, base.packed[left], ids[left], k))


def test_tables_of_differing_bits_give_the_ranking_by_bits(loops):  # noqa: F811
    codes = Codes.from_signs(random_bits(500, 48, 1))
    values = np.arange(256, dtype=np.uint8)
    tables = np.bitwise_count(codes.packed[:5, :, None] ^ values).astype(float)
    index = HammingIndex(codes)
    expected = index.search(codes[:5], 50)
    hits = index.search(codes[:5], 50, byte_tables=tables)
    assert np.array_equal(hits.ids, expected.ids)
    assert np.array_equal(hits.distances, expected.distances)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (np.ones((2, 2, 256)), r"shape \[1, 2, 256\]"),
        (lambda rows: np.ones((1, 2, 16)), r"shape \[1, 2, 256\]"),
        (np.full((1, 2, 256), np.nan), "finite numbers"),
        (np.full((1, 2, 256), -1.7e308), "the sums"),
        ("abc", "real numbers"),
    ],
)
def test_tables_that_make_no_distance_are_rejected(tables, message):
    codes = Codes.from_signs(random_bits(5, 12, 1))
    with pytest.raises(CodesError, match=message):
        HammingIndex(codes).search(codes[:1], 2, byte_tables=tables)


def test_one_way_to_rank_at_a_time():
    codes, tables = Codes.from_signs(random_bits(5, 12, 1)), np.zeros((5, 2, 256))
    with pytest.raises(ConfigError, match="weights or by byte_tables, not by both"):
        HammingIndex(codes).search(codes, byte_tables=tables, weights=np.ones((5, 12)))
    with pytest.raises(ConfigError, match="Only Hamming distances are looked up"):
        HammingIndex(codes).search(codes, byte_tables=tables, by="tables")


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (lambda index, codes: index.search(codes), "give byte_tables=hasher.distance_tables"),
        (lambda index, codes: index.search(codes, weights=np.ones((5, 12))), "give byte_tables"),
        (lambda index, codes: index.within(codes), "a radius counts bits"),
        (lambda index, codes: index.count_within(codes), "a radius counts bits"),
        (lambda index, codes: index.prepare(), "nothing to prepare"),
        (lambda index, codes: index.add(Codes(codes.packed, 12), [7] * 5), "not by a distance of its own"),
        (lambda index, codes: index.search(Codes(codes.packed, 12)), "not by a distance of its own"),
    ],
)
def test_hamming_distances_never_rank_such_codes(action, sentence):
    codes = own_codes(random_bits(5, 12, 1))
    with pytest.raises(CodesError, match=sentence) as caught:
        action(HammingIndex(codes), codes)
    assert "\n" not in str(caught.value)


def test_a_file_keeps_the_ranking_and_takes_more_such_codes(tmp_path):
    codes, path = own_codes(random_bits(20, 16, 1)), tmp_path / "own.index"
    HammingIndex(codes[:12]).save(path)
    with IndexWriter(path) as writer:
        writer.add(codes[12:])
        with pytest.raises(CodesError, match="ranked by Hamming distance, not by a distance of its own"):
            writer.add(Codes(codes.packed, 16), np.arange(100, 120))
    index, tables = HammingIndex.load(path), random_tables(3, 16, 4)
    assert (index.ranking, len(index)) == (OWN[RANKING], 20)
    expected = slow_search.table_search(tables, codes.packed, range(20), 5)
    assert_same(index.search(codes[:3], 5, byte_tables=tables), expected)


def test_items_at_a_distance_are_counted_however_many_there_are(monkeypatch):
    index = HammingIndex(own_codes(np.tile(random_bits(4, 8, 1), (300, 1))))
    query = index.codes[:1]
    tables = np.zeros((1, 1, 256))
    tables[0, 0, query.packed[0, 0]] = -1.0
    same = int((index.codes.packed == query.packed).all(1).sum())
    assert items_at_sum(index, query, tables, -1.0) == same >= 300
    assert items_at_sum(index, query, tables, 0.0) == 1200 - same
    assert items_at_sum(index, query, tables, -1.0, only=np.arange(8)) == same // 150
