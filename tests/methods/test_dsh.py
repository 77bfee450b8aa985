"""DSH against plain loops."""

from tests.methods.harness import build, draw_batch
from tests.reference.slow_methods import corners, labelled_rows, mean, share_a_label, squared_distance

TRAINING = {"train.epochs": 30}


def slow_pairs(us, ys, margin):
    """The contrastive loss, mean over the pairs of labelled rows."""
    rows = labelled_rows(us, ys)
    values = []
    for i, (u, y) in enumerate(rows):
        for v, other in rows[:i]:
            d2 = squared_distance(u, v)
            values.append(d2 / 2 if share_a_label(y, other) else max(margin - d2, 0.0) / 2)
    return mean(values)


def slow_loss(net, method, batch, moment):
    s, us, ys = method.settings, net(batch.inputs).u.tolist(), batch.labels.tolist()
    margin = 2 * len(us[0]) if s.margin is None else s.margin
    return slow_pairs(us, ys, margin) + s.corner_weight * corners(us, ys, 1)


def test_a_margin_that_was_set_does_not_depend_on_the_bits():
    net, method = build("dsh", 12, settings={"margin": 3.0})
    batch = draw_batch("mixed", False)
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    assert abs(method.step(net, batch)["pairs"].item() - slow_pairs(us, ys, 3.0)) < 1e-9
