"""The hash layer in closed form against scipy's generalised eigenvectors and a rotation of its own."""

import numpy as np
import pytest
import scipy.linalg

from scdh.nets import class_directions as module
from scdh.nets.class_directions import RIDGE, TURNS, class_directions, pairs_of_classes

WIDTH = 6


def slow_directions(x, labels, bits, rng):
    """Row by row, from the equation; scaled so that mean |u| is 1."""
    mean = sum(x) / len(x)
    classes = sorted(set(labels))
    within = total = np.zeros((WIDTH, WIDTH))
    for vector, label in zip(x, labels, strict=True):
        own = [other for other, one in zip(x, labels, strict=True) if one == label]
        deviation = vector - sum(own) / len(own)
        within = within + np.outer(deviation, deviation) / (len(x) - len(classes))
        total = total + np.outer(vector - mean, vector - mean) / len(x)
    ratios, axes = scipy.linalg.eigh(total - within, within + RIDGE * np.trace(within) / WIDTH * np.eye(WIDTH))
    best = np.argsort(-ratios)[:bits]
    projected = (x - mean) @ axes[:, best] * np.sqrt(ratios[best]) / (1 + ratios[best])
    rng.permutation(len(x))
    rotation = np.linalg.qr(rng.normal(size=(bits, bits)))[0][: len(best)]
    for _ in range(TURNS):
        left, _, right = np.linalg.svd(projected.T @ np.where(projected @ rotation >= 0, 1.0, -1.0))
        rotation = left @ np.eye(len(left), len(right)) @ right
    return projected @ rotation / np.abs(projected @ rotation).mean()


@pytest.mark.parametrize("bits", [1, 4, 6, 13])
def test_it_equals_the_slow_twin(bits):
    rng = np.random.default_rng(bits)
    labels = np.repeat([7, 2, 3, 9, 11, 20, 21, 22, 30, 40], 4)
    # Every eigenvalue is far above 0 and the noise has directions of its own.
    x = 2 * rng.normal(size=(50, WIDTH))[labels] + rng.normal(size=(40, WIDTH)) @ rng.normal(size=(WIDTH, WIDTH)) / 4
    weights, bias = class_directions(x, labels, bits, np.random.default_rng(0))
    u, expected = x @ weights + bias, slow_directions(x, labels, bits, np.random.default_rng(0))
    # The signs of eigenvectors are free and end in another rotation, which products of rows do not see.
    found, wanted = ((v @ v.T / (v * v).sum()) for v in (u, expected))
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert np.abs(u).mean() == pytest.approx(1)


@pytest.mark.parametrize("x", [np.zeros((4, 3)), np.ones((4, 3)) * np.arange(4)[:, None], np.ones((1, 3))])
def test_degenerate_rows_give_finite_weights(x):
    weights, bias = class_directions(x, np.arange(len(x)) // 2, 5, np.random.default_rng(0))
    assert weights.shape == (3, 5)
    assert np.isfinite(weights).all()
    assert np.isfinite(bias).all()


def test_of_many_rows_pairs_of_all_classes_count(monkeypatch):
    labels = np.array([5, 1, 1, 5, 3, 1, 1, 5, 9])
    order = pairs_of_classes(labels, np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(9))
    assert sorted(labels[order[:6]].tolist()) == [1, 1, 3, 5, 5, 9]
    assert sorted(labels[order[6:]].tolist()) == [1, 1, 5]
    x = np.random.default_rng(1).normal(size=(9, 3))
    monkeypatch.setattr(module, "MOST_ROWS", 6)
    found = class_directions(x, labels, 2, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    order = pairs_of_classes(labels, rng)[:6]
    expected = class_directions(x[order], labels[order], 2, rng)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
