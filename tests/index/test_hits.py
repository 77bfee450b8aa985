"""Hits of queries, and how many items share the last distance of a list."""

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.index import HammingIndex, Hits, QueryHits, RaggedHits
from scdh.index.ties import items_at, tie_note

IDS = np.array([[5, 7, 2], [1, 3, 9]])
DISTANCES = np.array([[0, 1, 1], [2, 2, 4]], dtype=np.int32)


def both():
    """The same three hits of each of two queries in both forms."""
    return Hits(IDS, DISTANCES), RaggedHits(np.array([3, 3]), IDS.ravel(), DISTANCES.ravel())


@pytest.mark.parametrize("hits", both())
def test_one_query_at_a_time(hits):
    assert len(hits) == 2
    for query in (0, 1, -1, -2, np.int64(1)):
        one = hits[query]
        assert isinstance(one, QueryHits)
        assert len(one) == 3
        assert one.ids.tolist() == IDS[query].tolist()
        assert one.distances.tolist() == DISTANCES[query].tolist()
        assert one.distances.dtype == np.int32
        assert list(one) == list(zip(IDS[query].tolist(), DISTANCES[query].tolist(), strict=True))
    assert [list(one) for one in hits] == [list(hits[0]), list(hits[1])]
    assert all(type(value) is int for value in next(iter(hits[0])))


@pytest.mark.parametrize("hits", both())
def test_indexes_are_rejected_as_lists_reject_them(hits):
    for query in (2, -3, 100):
        with pytest.raises(IndexError, match=f"Query {query} is out of range for 2 queries"):
            hits[query]
    for query in (0.0, "0", None):
        with pytest.raises(TypeError):
            hits[query]


def test_arrays_unpack_for_any_number_of_queries():
    for queries in (0, 1, 2, 3):
        hits = Hits(np.zeros((queries, 4), np.int64), np.ones((queries, 4), np.int32))
        ids, distances = hits.arrays
        assert ids is hits.ids
        assert distances is hits.distances
    hits, ragged = both()
    ids, distances, counts = ragged.arrays
    assert (ids is ragged.ids, distances is ragged.distances, counts is ragged.counts) == (True, True, True)
    ids, distances = hits[1].arrays
    assert list(zip(ids.tolist(), distances.tolist(), strict=True)) == list(hits[1])
    first, second = hits  # iterating gives the hits of each query, as before
    assert isinstance(first, QueryHits)
    assert list(second) == list(hits[1])


def test_queries_without_hits():
    hits = RaggedHits(np.array([0, 2, 0]), np.array([4, 6]), np.array([1, 1], dtype=np.int32))
    assert [list(one) for one in hits] == [[], [(4, 1), (6, 1)], []]
    none = Hits(np.empty((2, 0), np.int64), np.empty((2, 0), np.int32))
    assert [len(one) for one in none] == [0, 0]
    with pytest.raises(IndexError):
        Hits(np.empty((0, 3), np.int64), np.empty((0, 3), np.int32))[0]
    with pytest.raises(IndexError):
        RaggedHits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))[-1]


def test_counts_agree_with_a_loop():
    rng = np.random.default_rng(0)
    bits, queries = rng.integers(0, 2, (60, 5)), rng.integers(0, 2, (4, 5))
    index = HammingIndex(Codes.from_bits(bits))
    index.remove([3, 4])
    distances, only = [0, 1, 3, 5], np.arange(0, 60, 2)
    for allowed in (None, only):
        counted = [n for n in range(60) if n not in (3, 4) and (allowed is None or n in allowed)]
        expected = [
            sum(int(np.abs(bits[n] - query).sum()) == distance for n in counted)
            for query, distance in zip(queries, distances, strict=True)
        ]
        assert items_at(index, Codes.from_bits(queries), distances, allowed).tolist() == expected


@pytest.mark.parametrize(
    ("shown", "at_distance", "note"),
    [
        (3, 3, ""),
        (3, 4, "4 items are at distance 2, shown by id; 1 more at the same distance is not shown."),
        (1, 1500, "1,500 items are at distance 2, shown by id; 1,499 more at the same distance are not shown."),
    ],
)
def test_a_note_says_what_is_not_shown(shown, at_distance, note):
    assert tie_note(2, shown, at_distance) == note
