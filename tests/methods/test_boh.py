"""BOH (a reconstruction) against plain loops."""

import math

import pytest

from scdh.methods.base import Moment
from tests.methods.harness import build, draw_batch
from tests.methods.test_dhn import slow_pairs
from tests.reference.slow_methods import labelled_rows, mean

TRAINING = {"train.epochs": 60}


def slow_inside(hs, ys):
    return mean([sum(1 - x * x for x in h) for h, _ in labelled_rows(hs, ys)])


def slow_loss(net, method, batch, moment):
    hs, ys = [[math.tanh(x) for x in u] for u in net(batch.inputs).u.tolist()], batch.labels.tolist()
    stages = method.settings.stages
    stage = next(s for s in range(stages) if moment.epoch < moment.epochs * (s + 1) / stages)
    return slow_pairs(hs, ys) + method.settings.mu * (stage + 1) / stages * slow_inside(hs, ys)


def test_the_weight_rises_in_stages():
    net, method = build("boh", 8, settings={"mu": 0.8, "stages": 4})
    batch = draw_batch("mixed", False)
    parts = [method.step(net, batch, Moment(epoch, epochs=8)) for epoch in range(8)]
    weights = [(p["loss"] - p["pairs"]).item() / p["inside"].item() for p in parts]
    assert weights == pytest.approx([0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.8, 0.8])
    assert method.step(net, batch, Moment(99, epochs=8))["loss"].item() == pytest.approx(parts[-1]["loss"].item())
