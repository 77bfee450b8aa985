"""DSH against plain loops."""

from types import SimpleNamespace

import pytest
import torch

from tests.methods.harness import CASES, build, draw_batch
from tests.reference.slow_methods import corners, labelled_rows, mean, share_a_label, squared_distance

TRAINING = {"train.epochs": 30}


def test_the_gradient_is_twice_that_of_the_authors_release():
    """The layer adds (u_i − u_j)/(B(B − 1)) for a similar pair, half the gradient of its loss, and ±a/B per bit."""
    net, method = build("dsh", 12)
    batch = draw_batch("mixed", False)
    u = net(batch.inputs).u.detach()
    net.forward = lambda inputs: SimpleNamespace(u=u.requires_grad_())
    method.step(net, batch)["loss"].backward()
    rows = [i for i, y in enumerate(batch.labels.tolist()) if y >= 0]
    expected = torch.zeros_like(u)
    for i in rows:
        x = u[i].detach()
        expected[i] += 0.01 / len(rows) * torch.where((x >= 1) | ((x <= 0) & (x >= -1)), 1.0, -1.0)
        for j in rows:
            gap = x - u[j].detach()
            is_similar = batch.labels[i] == batch.labels[j]
            if i != j and (is_similar or gap.square().sum() < 24):
                expected[i] += (1 if is_similar else -1) * gap / (len(rows) * (len(rows) - 1))
    torch.testing.assert_close(u.grad, 2 * expected)


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
