"""Tables of pairs: how items are named, what is rejected, and the rows that are held out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from scdh.data.arrays.memory import ArraySource
from scdh.data.pairs import Pairs, pairs_of, read_pairs
from scdh.errors import DataError
from scdh.nets.known_pairs import KnownPairs


@pytest.fixture
def source():
    return ArraySource(np.zeros((4, 2)), name="items", item_names=["w", "x", "y", "z"])


def write(tmp_path, text):
    file = tmp_path / "pairs.csv"
    file.write_text(text, "utf-8")
    return file


def test_names_numbers_and_words_are_read(tmp_path, source):
    pairs = read_pairs(write(tmp_path, "A;b;Similar\nx;w;1\ny;z;false\nw;z;0.25\n"), source)
    assert (pairs.a.tolist(), pairs.b.tolist()) == ([0, 0, 2], [1, 3, 3])
    assert pairs.similar.tolist() == [1, 0.25, 0]
    pq.write_table(pa.table({"a": ["x", "y"], "b": ["w", "z"], "similar": [True, False]}), tmp_path / "p.parquet")
    assert read_pairs(tmp_path / "p.parquet", source).similar.tolist() == [1, 0]
    by_number = pairs_of([(1, 0, 1), (2, 3, 0)], ArraySource(np.zeros((4, 2))))
    assert (by_number.a.tolist(), by_number.b.tolist()) == ([0, 2], [1, 3])


def test_a_pair_with_two_values_counts_with_their_mean(source):
    with pytest.warns(UserWarning, match="1 pairs of pairs come with different values"):
        pairs = pairs_of([("w", "x", 1), ("x", "w", 0), ("x", "w", 1), ("y", "z", 0), ("z", "y", 0)], source)
    assert pairs.similar.tolist() == pytest.approx([2 / 3, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,similar\nw,x,1\nw,v,0\n", "Unknown item of items 'v'"),
        ("a,b,similar\nw,w,1\nw,x,0\n", "pairs 'w' with itself"),
        ("a,b,similar\n", "has no pairs"),
        ("", "has no column 'a'"),
        ("a,b\nw,x\n", "has no column 'similar'"),
        ("a,b,similar\nw,x,2\n", "has '2' in similar"),
        ("a,b,similar\nw,x,maybe\n", "has 'maybe' in similar"),
        ("a,b,similar\nw,x,nan\n", "has 'nan' in similar"),
        ("a,b,similar\nw,x\n", "Line 2 of pairs.csv"),
        ("a,b,similar\nw,x,1\n", "has no dissimilar pair"),
        ("a,b,similar\nw,x,0\n", "has no similar pair"),
    ],
)
def test_bad_tables_are_rejected(tmp_path, source, text, message):
    with pytest.raises(DataError, match=message):
        read_pairs(write(tmp_path, text), source)


def test_positions_follow_rows_in_any_order():
    pairs = Pairs(np.array([3, 5]), np.array([9, 7]), np.array([1, 0], np.float32))
    placed = pairs.positions(np.array([9, 5, 3]))
    assert (placed.a.tolist(), placed.b.tolist(), placed.similar.tolist()) == ([0], [2], [1])
    assert len(pairs.with_one_of(np.array([3]), np.array([9, 5, 7]))) == 1


def test_masks_of_a_batch_equal_a_loop():
    rng = np.random.default_rng(0)
    rows = np.array([4, 9, 2, 11, 30, 7])
    a, b = (np.array(column) for column in zip(*[(4, 9), (2, 11), (7, 30), (2, 4), (7, 50)], strict=True))
    known = KnownPairs(rows, Pairs(np.minimum(a, b), np.maximum(a, b), np.array([1, 0, 1, 0, 1], np.float32)))
    values = {(4, 9): 1, (2, 11): 0, (7, 30): 1, (2, 4): 0}
    for _ in range(5):
        batch = rng.choice([*rows, 50, 99], 5, replace=False)
        for columns, masks in (
            (batch, known.masks(torch.from_numpy(batch))),
            (rows, known.masks(torch.from_numpy(batch), with_all=True)),
        ):
            for i, row in enumerate(batch):
                for j, column in enumerate(columns):
                    value = values.get((min(row, column), max(row, column)))
                    assert bool(masks.known[i, j]) == (value is not None)
                    assert bool(masks.similar[i, j]) == (value == 1)
