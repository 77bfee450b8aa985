"""The rule for "has no label" in numpy and in torch, and what is counted and changed by it."""

import doctest

import numpy as np
import pytest
import torch

from scdh import label_arrays
from scdh.data.labels import encode_columns, encode_lists
from scdh.label_arrays import hide_labels, is_labelled, multi_hot, no_labels, renumbered, rows_per_class
from scdh.losses.label_masks import has_label

SINGLE = np.array([2, -1, 0, 2])
MULTI = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]], np.uint8)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(label_arrays).failed == 0


@pytest.mark.parametrize("labels", [SINGLE, MULTI, MULTI.astype(bool)])
def test_one_rule_for_every_form(labels: np.ndarray) -> None:
    assert is_labelled(labels).tolist() == [True, False, True, True]
    assert has_label(torch.tensor(labels)).tolist() == [True, False, True, True]
    assert rows_per_class(labels, 3).tolist() == [1, 0, 2]
    hidden = labels.copy()
    hide_labels(hidden, np.array([True, False, False, False]))
    assert is_labelled(hidden).tolist() == [False, False, True, True]


def test_forms_can_be_converted() -> None:
    assert np.array_equal(multi_hot(SINGLE, 3), MULTI)
    assert not is_labelled(no_labels(3)).any()
    assert rows_per_class(no_labels(3), 0).tolist() == []
    new_numbers = np.array([1, 3, 0])
    assert renumbered(SINGLE, new_numbers, 4).tolist() == [0, -1, 1, 0]
    assert np.array_equal(renumbered(MULTI, new_numbers, 4), multi_hot(np.array([0, -1, 1, 0]), 4))


def test_columns_of_short_lists_are_not_taken_for_flags() -> None:
    lists = encode_lists([[0, 1], [1], []])
    labels, names = encode_columns({"a": lists, "b": lists})
    assert labels.tolist() == [[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0]]
    assert names == ["a=0", "a=1", "b=0", "b=1"]
