"""How many items share the last distance of a list of hits."""

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.ties import items_at, tie_note


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
