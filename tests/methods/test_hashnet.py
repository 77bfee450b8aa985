"""HashNet against plain loops, and how its codes harden."""

import math

import pytest
import torch

from scdh.methods.base import Moment
from scdh.methods.hashnet import hardness
from tests.methods.harness import build, draw_batch
from tests.reference.slow_methods import batch_likelihood, mean


def slow_loss(net, method, batch, moment):
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    share = (moment.epoch + moment.step / moment.steps_per_epoch) / moment.epochs
    beta = math.sqrt(1 + method.settings.growth * int(share * 50) / 50)
    hs = [[math.tanh(beta * x) for x in u] for u in us]
    scale = 10 / len(us[0]) if method.settings.scale is None else method.settings.scale
    similar, dissimilar = batch_likelihood(hs, ys, scale)
    return mean(similar) + mean(dissimilar)  # Σ w l / |S| with the weights |S|/|S₁| and |S|/|S₀|


def test_codes_harden_in_stages_as_in_the_release():
    assert hardness(0.0, 50) == 1
    assert hardness(0.019, 50) == 1
    for iteration in (200, 4000, 9999, 10000):  # of 10,000, raised every 200
        expected = math.sqrt(1 + 0.005 * (iteration // 200 * 200))
        assert hardness(iteration / 10000, 50) == pytest.approx(expected)
    net, method = build("hashnet", 12)
    batch = draw_batch("mixed", False)
    parts = [method.step(net, batch, Moment(epoch, 0, 4, 30)) for epoch in (0, 29)]
    assert [part["beta"].item() for part in parts] == pytest.approx([1, hardness(29 / 30, 50)])
    assert not torch.equal(parts[0]["loss"], parts[1]["loss"])
