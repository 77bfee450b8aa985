"""Pairs within a radius and their groups, against the slow twin."""

import numpy as np
import pytest

from scdh import Codes, HammingIndex
from scdh.errors import CodesError, TooManyPairsError
from scdh.index import duplicates
from scdh.index.search import hash_tables
from tests.reference import slow_search


def clustered(count: int, bits: int, seed: int) -> np.ndarray:
    """Codes that repeat and lie near each other."""
    rng = np.random.default_rng(seed)
    centres = rng.random((max(1, count // 6), bits)) < 0.5
    return centres[rng.integers(0, len(centres), count)] ^ (rng.random((count, bits)) < 0.6 / bits)


@pytest.mark.parametrize("bits", [1, 12, 13, 64, 130])
@pytest.mark.parametrize("radius", [0, 1, 3])
def test_pairs_and_groups_are_those_of_the_slow_twin(bits, radius, monkeypatch):
    monkeypatch.setattr(duplicates, "_EDGES", 7)
    monkeypatch.setattr(duplicates, "_FEWEST_QUERIES", 5)
    base = clustered(90, bits, seed=bits + radius)
    ids = np.random.default_rng(1).permutation(1000)[:90]
    index = HammingIndex(Codes.from_signs(base[:60]), ids=ids[:60])
    index.add(Codes.from_signs(base[60:]), ids[60:])
    index.remove(ids[:5])
    pairs = index.pairs_within(radius)
    found = [(one, other, d) for (one, other), d in zip(pairs.ids.tolist(), pairs.distances.tolist(), strict=True)]
    assert found == slow_search.pairs_within(base[5:], ids[5:], radius)
    groups = [group.tolist() for group in index.groups_within(radius)]
    assert groups == slow_search.groups_within(base[5:], ids[5:], radius)


def test_tables_give_the_same_pairs(monkeypatch):
    base = clustered(3000, 24, seed=3)
    index = HammingIndex(Codes.from_signs(base))
    scanned = index.pairs_within(1)
    monkeypatch.setattr(hash_tables, "FEWEST_ROWS", 16)
    monkeypatch.setattr(hash_tables, "may_win", lambda bits, rows, radius: True)
    looked_up = index.pairs_within(1)
    assert len(scanned) > 1000
    assert np.array_equal(scanned.ids, looked_up.ids)
    assert np.array_equal(scanned.distances, looked_up.distances)


def test_equal_codes_are_groups_without_their_pairs():
    """A million items with ten distinct codes have 5·10¹⁰ pairs."""
    codes = np.random.default_rng(0).integers(0, 256, (10, 8), dtype=np.uint8)
    index = HammingIndex(Codes(codes[np.arange(1_000_000) % 10], 64))
    groups = index.groups_within(2)
    assert groups.sizes.tolist() == [100_000] * 10
    assert next(iter(groups))[:3].tolist() == [0, 10, 20]
    with pytest.raises(TooManyPairsError, match="More than 10,000,000 pairs are within 2 bits; use groups_within"):
        index.pairs_within(2)


def test_nothing_and_wrong_arguments():
    empty = HammingIndex(Codes.from_signs(np.zeros((0, 8))))
    assert len(empty.pairs_within(2)) == len(empty.groups_within(2)) == len(list(empty.groups_within(2))) == 0
    with pytest.raises(CodesError, match="radius must be an integer of at least 0"):
        empty.pairs_within(-1)
