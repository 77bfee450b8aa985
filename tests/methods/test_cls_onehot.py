"""Cls-onehot against plain loops: its loss, its codes of one bit per class, and its distance."""

import math

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from tests.methods.harness import CLASSES, build, digits
from tests.reference.slow_losses import softmax_loss
from tests.reference.slow_methods import linear


def slow_loss(net, method, batch, moment):
    scores = [linear(x, net.head.hash_layer) for x in batch.inputs.tolist()]
    return softmax_loss(scores, batch.labels.tolist())


def test_codes_have_one_bit_a_class_and_queries_keep_probabilities():
    net, method = build("cls_onehot", 48)
    assert net.bits == method.code_bits == CLASSES
    u = np.random.default_rng(0).normal(size=(6, CLASSES))
    u[0, 2] = u[0, 4] = 9.0  # of equal ones the first counts
    codes = Codes.from_signs(method.signs(net, u))
    best = [max(range(CLASSES), key=list(row).__getitem__) for row in u]
    assert best[0] == 2
    assert codes.unpack().tolist() == [[int(s == label) for s in range(CLASSES)] for label in best]
    distances = method.distances(net, u, codes)
    for i, row in enumerate(u):
        for j, label in enumerate(best):
            probability = math.exp(row[label]) / sum(math.exp(x) for x in row)
            assert distances[i, j] == pytest.approx(1 - probability)
    assert np.isfinite(method.distances(net, 1e4 * u, codes)).all()
    # Of a code alone, its class is certain.
    by_codes = method.distances(net, method.outputs_of_codes(net, codes), codes)
    np.testing.assert_allclose(by_codes, [[float(a != b) for b in best] for a in best], atol=1e-12)


def test_several_labels_are_rejected():
    with pytest.raises(ConfigError, match="Cls-onehot learns from single-label data only"):
        build("cls_onehot", 8, multi_label=True)


def test_any_number_of_bits_gives_the_same_codes():
    twelve, many = (Hasher.train(digits("cls_onehot", **{"method.bits": bits}), quiet=True) for bits in (12, 48))
    assert twelve.fingerprint() == many.fingerprint()
    assert twelve.bits == many.bits == 10
