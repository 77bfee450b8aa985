"""The triplet loss and its unary upper bounds (Theorem 1, Proposition 1) against slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh import losses
from tests.reference import slow_losses as slow


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 4), st.sampled_from(["hinge", "softmax"]))
def test_unary_bound_is_above_the_triplet_loss_on_balanced_data(seed, classes, per_class, g):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(classes), per_class))
    h = rng.normal(size=(len(y), 6)) * rng.uniform(0.1, 3)
    centres = rng.normal(size=(classes, 6)) * rng.uniform(0.1, 3)
    triplet = losses.triplet_ranking_loss(h, y, g=g, margin=1.0)
    bound = losses.unary_upper_bound(h, y, centres, g=g, margin=1.0)
    kernel = {"hinge": slow.g_hinge, "softmax": slow.g_softmax}[g]
    assert triplet == pytest.approx(slow.triplet(h.tolist(), y.tolist(), kernel, 1.0))
    assert bound == pytest.approx(slow.upper_bound(h.tolist(), y.tolist(), centres.tolist(), kernel, 1.0))
    assert bound >= triplet - 1e-9


@pytest.mark.parametrize("p", [0.15, 0.4])
def test_proposition_1_holds_on_average(p):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 8))
    triplets, bounds = [], []
    for _ in range(60):
        y = (rng.random((14, 6)) < p).astype(int)
        h = y @ centres + rng.normal(size=(14, 8)) * 0.5
        triplets.append(losses.triplet_ranking_loss(h, y))
        bounds.append(losses.multilabel_upper_bound(h, y, centres, p=p))
    assert min(triplets) > 0
    assert np.mean(bounds) >= np.mean(triplets)


def test_multilabel_bound_equals_its_slow_twin():
    rng = np.random.default_rng(1)
    y = (rng.random((9, 5)) < 0.4).astype(int)
    h, centres = rng.normal(size=(9, 7)), rng.normal(size=(5, 7))
    fast = losses.multilabel_upper_bound(h, y, centres, p=0.4)
    expected = slow.multilabel_upper_bound(h.tolist(), y.tolist(), centres.tolist(), 0.4, slow.g_hinge, 1.0)
    assert fast == pytest.approx(expected)
    assert losses.triplet_ranking_loss(h, y) == pytest.approx(slow.triplet(h.tolist(), y.tolist(), slow.g_hinge, 1.0))
