"""The kernel for many queries, on any processor, against looking at everything."""

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.kernels import slice_scanning
from scdh.index.search import scan
from tests.index.test_hamming import LENGTHS, assert_same, random_bits
from tests.reference import slow_search

ROWS, QUERIES = 1300, 25


@pytest.fixture
def calls(monkeypatch):
    """Small searches take this way, too; the rows that each call of it compared."""
    calls = []

    def nearest_of_more(*arguments):
        calls.append((arguments[2], arguments[3]))
        return kernel(*arguments)

    kernel = slice_scanning.nearest_of_more
    monkeypatch.setattr(scan, "WORTH_LOADING", 0)
    monkeypatch.setattr(slice_scanning, "is_fastest", lambda: True)
    monkeypatch.setattr(slice_scanning, "_ROWS_BEFORE", 70)
    monkeypatch.setattr(slice_scanning, "_ROWS_BEFORE_A_HIT", 0)
    monkeypatch.setattr(slice_scanning, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(slice_scanning, "nearest_of_more", nearest_of_more)
    return calls


@pytest.mark.parametrize("bits", LENGTHS)
def test_many_queries_give_the_hits_of_sorting_everything(bits, calls):
    base, ids = random_bits(ROWS, bits, 1), np.arange(ROWS)
    # Queries near the codes, anywhere, and opposite to them: limits of all sizes, also beyond 256.
    asked = np.concatenate([random_bits(9, bits, 1), random_bits(8, bits, 2, flip=0.5), ~base[:8]])
    index = HammingIndex(Codes.from_signs(base))
    allowed = np.random.default_rng(3).random(ROWS) < 0.6
    allowed[:200] = False  # none of the first rows is a candidate
    everything = slow_search.search(asked, base, ids, ROWS)
    for k in (1, 20, 400):
        assert_same(index.search(Codes.from_signs(asked), k), [answer[:k] for answer in everything])
        expected = [[pair for pair in answer if allowed[pair[1]]][:k] for answer in everything]
        assert_same(index.search(Codes.from_signs(asked), k, only=allowed), expected)
    assert (70, ROWS) in calls


def test_equal_codes_are_found_in_the_order_of_their_rows(calls):
    base = np.zeros((ROWS, 64), bool)
    hits = HammingIndex(Codes.from_signs(base)).search(Codes.from_signs(base[:QUERIES]), 100)
    assert (hits.ids == np.arange(100)).all()
    assert not hits.distances.any()
    assert calls


def test_few_rows_and_many_hits_take_the_other_way():
    rows = range(1000, 1_000_000)
    assert slice_scanning.first_row(rows, 10) == 1000 + 4096
    assert slice_scanning.first_row(rows, 1000) == 1000 + 64_000
    assert slice_scanning.first_row(range(10_000), 10) == 10_000
    assert slice_scanning.first_row(rows, 100_000) == rows.stop


@pytest.mark.parametrize(("queries", "ways"), [(23, 0), (24, 1), (256 + 23, 1), (256 + 24, 2)])
def test_few_queries_take_the_other_way(queries, ways, calls):
    """Also those that are left over when queries are divided among tasks of 256."""
    base = random_bits(ROWS, 64, 1)
    asked = np.resize(base, (queries, 64))
    hits = HammingIndex(Codes.from_signs(base)).search(Codes.from_signs(asked), 5)
    assert_same(hits, slow_search.search(asked, base, np.arange(ROWS), 5))
    assert len(calls) == ways
