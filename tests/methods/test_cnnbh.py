"""CNNBH against plain loops, and what it learns."""

import pytest
import torch

from tests.methods.harness import build, draw_batch
from tests.reference.slow_losses import softmax_loss
from tests.reference.slow_methods import linear

TWIN_SETTINGS = {"dropout": 0.0}


def slow_loss(net, method, batch, moment):
    scores = [linear(u, net.head.classifier) for u in net(batch.inputs).u.tolist()]
    return softmax_loss(scores, batch.labels.tolist())


def test_dropped_bits_are_for_training_only():
    net, method = build("cnnbh", 12, settings={"dropout": 0.5})
    batch = draw_batch("mixed", False)
    torch.manual_seed(0)
    first, second = (method.step(net, batch)["loss"].item() for _ in range(2))
    assert first != second
    plain = method.step(net.eval(), batch)["loss"].item()
    assert plain == pytest.approx(slow_loss(net, method, batch, None))
