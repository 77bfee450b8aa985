"""Cls-LSH against plain loops: its loss, its rotation and its thresholds."""

import math
import statistics

import numpy as np
import pytest
import torch

from scdh.methods.base import MethodData
from scdh.model.hasher import Hasher
from tests.methods.harness import CLASSES, build, digits, draw_batch
from tests.reference.slow_losses import label_set, softmax_loss
from tests.reference.slow_methods import linear


def slow_loss(net, method, batch, moment):
    scores = [linear(x, net.head.classifier) for x in batch.inputs.tolist()]
    return softmax_loss(scores, batch.labels.tolist())


@pytest.mark.parametrize("bits", [1, 4, 5, 13])
def test_the_rotation_keeps_angles(bits):
    rotation = build("cls_lsh", bits)[0].head.rotation
    short = rotation.T if bits > CLASSES else rotation
    torch.testing.assert_close(short.T @ short, torch.eye(min(bits, CLASSES), dtype=torch.float64))


@pytest.mark.parametrize("multi_label", [False, True])
def test_codes_are_signs_of_rotated_probabilities_about_the_medians_of_labels(multi_label):
    net, method = build("cls_lsh", 7, multi_label)
    batch = draw_batch("mixed", multi_label)
    method.prepare(net, MethodData(batch.labels.numpy(), batch.rows.numpy()))
    rotation = net.head.rotation.tolist()
    sets = [label_set(y) for y in batch.labels.tolist() if label_set(y)]
    for k in range(7):
        values = [sum(rotation[s][k] for s in labels) / len(labels) for labels in sets]
        assert net.head.thresholds[k].item() == pytest.approx(statistics.median(values))
    us = net(batch.inputs).u.tolist()
    for x, u in zip(batch.inputs.tolist(), us, strict=True):
        weights = [math.exp(score) for score in linear(x, net.head.classifier)]
        for k in range(7):
            rotated = sum(w / sum(weights) * rotation[s][k] for s, w in enumerate(weights))
            assert u[k] == pytest.approx(rotated - net.head.thresholds[k].item())


def test_data_without_any_label_leave_the_thresholds_at_0():
    net, method = build("cls_lsh", 3)
    method.prepare(net, MethodData(np.full(4, -1), np.arange(4)))
    assert net.head.thresholds.tolist() == [0, 0, 0]


def test_the_model_keeps_rotation_and_thresholds(tmp_path):
    hasher = Hasher.train(digits("cls_lsh", 1), tmp_path, quiet=True)
    loaded = Hasher.load(tmp_path).network.head
    assert torch.equal(loaded.rotation, hasher.network.head.rotation)
    assert loaded.thresholds.any()
