"""DSH against plain loops."""

import pytest

from tests.methods.harness import CASES, build, draw_batch
from tests.reference.slow_methods import corners, labelled_rows, mean, share_a_label, squared_distance

TRAINING = {"train.epochs": 30}


def slow_pairs(us, ys, margin, balanced=False):
    """The contrastive loss, mean over the pairs of labelled rows; balanced: of both kinds of pairs, each for itself."""
    rows = labelled_rows(us, ys)
    similar, dissimilar = [], []
    for i, (u, y) in enumerate(rows):
        for v, other in rows[:i]:
            d2 = squared_distance(u, v)
            if share_a_label(y, other):
                similar.append(d2 / 2)
            else:
                dissimilar.append(max(margin - d2, 0.0) / 2)
    return (mean(similar) + mean(dissimilar)) / 2 if balanced else mean(similar + dissimilar)


def slow_loss(net, method, batch, moment):
    s, us, ys = method.settings, net(batch.inputs).u.tolist(), batch.labels.tolist()
    margin = 2 * len(us[0]) if s.margin is None else s.margin
    return slow_pairs(us, ys, margin, s.balance) + s.corner_weight * corners(us, ys, 1)


def test_a_margin_that_was_set_does_not_depend_on_the_bits():
    net, method = build("dsh", 12, settings={"margin": 3.0})
    batch = draw_batch("mixed", False)
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    assert abs(method.step(net, batch)["pairs"].item() - slow_pairs(us, ys, 3.0)) < 1e-9


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("multi_label", [False, True])
def test_balanced_pairs_equal_the_slow_twin(case, multi_label):
    net, method = build("dsh", 12, multi_label, settings={"balance": True})
    batch = draw_batch(case, multi_label)
    assert method.step(net, batch)["loss"].item() == pytest.approx(slow_loss(net, method, batch, None), rel=1e-9)
