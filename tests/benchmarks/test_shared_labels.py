"""nDCG with ties against all orders of the ties, and rows that take part."""

import itertools

import numpy as np
import pytest

from benchmarks import shared_labels
from scdh.codes import Codes
from scdh.data.protocol import Protocol
from scdh.errors import DataError


def test_ndcg_is_the_mean_over_all_orders_of_ties() -> None:
    distances = np.array([[1, 0, 1, 2, 1, 2]])
    gains = np.array([[0.5, 0.0, 1.0, 0.25, 0.0, 1.0]])
    weights = 1 / np.log2(np.arange(2, 6))
    best = np.sort(gains[0])[::-1][:4] @ weights
    orders = [order for order in itertools.permutations(range(6)) if (np.diff(distances[0][list(order)]) >= 0).all()]
    expected = np.mean([gains[0][list(order)][:4] @ weights / best for order in orders])
    assert len(orders) == 12
    assert shared_labels.ndcg(distances, gains, top=4) == pytest.approx(expected)
    nothing_to_find = np.zeros((1, 6))
    both = shared_labels.ndcg(np.repeat(distances, 2, 0), np.concatenate([gains, nothing_to_find]), top=4)
    assert both == pytest.approx(expected)


def test_only_rows_that_nothing_was_learned_from_are_searched() -> None:
    labels = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 1], [1, 0]])

    def protocol(database: list[int]) -> Protocol:
        rows = {"train": [0], "validation": [1, 2], "query": [5], "database": database}
        return Protocol(**{name: np.array(value) for name, value in rows.items()}, name="made-up", seed=0)

    codes = Codes.from_signs(np.array([[1, 1, 1, 1], [-1, 1, 1, 1], [1, 1, 1, -1], [-1, 1, 1, 1], [1, 1, 1, -1]]))
    found, ndcg = shared_labels.score(codes, protocol([0, 1, 2, 3, 4]), labels)
    assert found == 1.0  # row 0, which would come between rows 3 and 4 for row 1, is not searched
    assert ndcg == pytest.approx(1.0)
    with pytest.raises(DataError, match="nothing but these"):
        shared_labels.score(codes[:3], protocol([0, 1, 2]), labels)
