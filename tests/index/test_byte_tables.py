"""Ranking by tables of bytes against adding up the entry of every byte."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.codes import RANKING, Codes
from scdh.errors import CodesError, ConfigError
from scdh.index import HammingIndex, byte_tables, segments
from scdh.index.search import scan
from scdh.index.store import IndexWriter
from scdh.index.ties import items_at_sum
from tests.index.test_hamming import LENGTHS, assert_same, random_bits, random_ids
from tests.index.test_weighted import loops  # noqa: F401 - a fixture
from tests.reference import slow_search

OWN = {RANKING: "a distance of its own"}


def random_tables(count, bits, seed):
    """Few different values, some below 0, so that there are ties."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (count, -(-bits // 8), 256)) / 4 + 1e-9 * rng.integers(0, 2, (count, 1, 256))


def own_codes(bits_array):
    return Codes.from_signs(bits_array, metadata=OWN)


@pytest.mark.parametrize("bits", LENGTHS)
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
