"""BOH (a reconstruction) against plain loops."""

import math

import pytest

from scdh.methods.base import Moment
from tests.methods.harness import build, draw_batch
from tests.reference.slow_methods import dot, labelled_rows, mean, share_a_label


TRAINING = {"train.epochs": 50, "train.lr_head": 0.005, "train.lr_trunk": 0.005}


def slow_pairs(hs, ys):
    """1 − x of similar rows and max(0, x) of others, x the mean product of their bits; mean over pairs i ≠ j."""
    rows = labelled_rows(hs, ys)
    values = []
    for i, (h, y) in enumerate(rows):
        for other, other_y in rows[:i]:
            x = dot(h, other) / len(h)
            values.append(1 - x if share_a_label(y, other_y) else max(0.0, x))
    return mean(values)


def slow_inside(hs, ys):
    return mean([sum(1 - x * x for x in h) / len(h) for h, _ in labelled_rows(hs, ys)])


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
