"""Names of rows: from ids to names and back, names and labels of several parts put together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.data.packed_texts import PackedTexts
from scdh.data.row_names import RowNames, joined
from scdh.errors import CodesError, DataError
from scdh.index import HammingIndex

ROWS = RowNames(np.array([7, 9, 2]), ["SKU-17", "SKU-4", "SKU-4"], np.array([-1, -1, -1]), [])


def test_names_of_hits(tmp_path):
    index = HammingIndex(Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 1]]), ids=[7, 9, 2])
    hits = index.search(Codes.from_bits([[0, 0, 0], [1, 1, 1]]), k=2)
    assert ROWS.names_of(hits.ids).tolist() == [["SKU-17", "SKU-4"], ["SKU-4", "SKU-4"]]
    assert ROWS.names_of(hits[0].ids).tolist() == ["SKU-17", "SKU-4"]
    assert ROWS.names_of([]).tolist() == []
    assert ROWS.names_of(7).item() == "SKU-17"
    with pytest.raises(DataError, match="Id 8 has no name; there are names of 3 other ids"):
        ROWS.names_of([7, 8])
    with pytest.raises(CodesError, match=r"no codes or index file at .*a\.index to keep names with"):
        ROWS.save(tmp_path / "a.index")
    index.save(tmp_path / "a.index")
    ROWS.save(tmp_path / "a.index")
    for read in (RowNames.load(tmp_path / "a.index"), RowNames.read(str(tmp_path / "a.index.items"))):
        assert read.names_of([2]).tolist() == ["SKU-4"]
    assert RowNames.read(tmp_path / "other.items") is None


def test_ids_of_a_name():
    assert (ROWS.ids_of("SKU-17"), ROWS.ids_of("SKU-4"), ROWS.ids_of("sku-4")) == ([7], [9, 2], [])


ANY_TEXT = st.text(st.sampled_from("aé\u20ac\0\ud800\udce9"), max_size=4)  # lone surrogates too


@given(parts=st.lists(st.tuples(st.lists(ANY_TEXT, max_size=4), st.booleans()), max_size=4))
def test_joined_texts_are_those_of_the_parts(parts):
    given_parts = [PackedTexts.of(texts) if packed else texts for texts, packed in parts]
    assert PackedTexts.concatenated(given_parts) == [text for texts, _ in parts for text in texts]


def test_rows_come_in_ascending_order_of_id_with_their_names_and_labels():
    first = RowNames(np.array([5, 9]), PackedTexts.of(["five", "nine"]), np.array([0, -1]), ["x"])
    second = RowNames(np.array([0, 1]), ["seven", "ten"], np.array([1, 0]), ["x", "y"])
    for ids in ([5, 9, 10, 11], [5, 9, 7, 10]):
        together = joined([first, second], np.array(ids))
        assert together.ids.tolist() == sorted(ids)
        assert together.names_of(ids).tolist() == ["five", "nine", "seven", "ten"]
        assert [together.label(together.position(i)) for i in ids] == ["x", "", "y", "x"]


def test_ids_with_labels():
    single = RowNames(np.array([5, 9, 7]), ["", "", ""], np.array([0, 1, -1]), ["x", "y"])
    several = RowNames(np.array([5, 9, 7]), ["", "", ""], np.array([[1, 0], [1, 1], [0, 0]]), ["x", "y"])
    assert single.ids_with_labels(["x", "y"]).tolist() == [5, 9]
    assert several.ids_with_labels(["y"]).tolist() == [9]
