"""Names of several parts put together: packed ones are joined as bytes, and are what a list would be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scdh.data.packed_texts import PackedTexts
from scdh.data.row_names import RowNames, joined

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
