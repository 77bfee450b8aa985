"""DTSH against plain loops."""

import math

from tests.methods.harness import build, draw_batch
from tests.reference.slow_methods import corners, dot, labelled_rows, mean, share_a_label, sigmoid

TRAINING = {"train.epochs": 20, "method.margin": 5.0}


def slow_triplets(us, ys, margin):
    """−log σ(θ_ij − θ_ik − α) over all triplets of labelled rows, mean."""
    rows = labelled_rows(us, ys)
    values = []
    for i, (u, y) in enumerate(rows):
        for j, (near, near_y) in enumerate(rows):
            for far, far_y in rows:
                if i != j and share_a_label(y, near_y) and not share_a_label(y, far_y):
                    values.append(-math.log(sigmoid(dot(u, near) / 2 - dot(u, far) / 2 - margin)))
    return mean(values)


def slow_loss(net, method, batch, moment):
    s, us, ys = method.settings, net(batch.inputs).u.tolist(), batch.labels.tolist()
    margin = len(us[0]) / 2 if s.margin is None else s.margin
    return slow_triplets(us, ys, margin) + s.eta * corners(us, ys, 2)


def test_a_margin_that_was_set_does_not_depend_on_the_bits():
    net, method = build("dtsh", 12, settings={"margin": 0.5})
    batch = draw_batch("mixed", False)
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    assert abs(method.step(net, batch)["triplets"].item() - slow_triplets(us, ys, 0.5)) < 1e-9
