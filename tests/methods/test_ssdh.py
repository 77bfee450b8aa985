"""SSDH against plain loops, its terms by hand, and what it learns."""

import pytest
import torch

from scdh.losses import squared_hinge_loss, unbalanced_bits_loss, undecided_bits_loss
from tests.reference.slow_losses import label_set, softmax_loss
from tests.reference.slow_methods import labelled_rows, linear, mean, sigmoid


def slow_hinges(scores, ys):
    """½ Σ_s max(0, 1 − t_s x_s)², mean over the labelled rows."""
    return mean(
        [
            sum(max(0.0, 1 - (x if s in label_set(y) else -x)) ** 2 for s, x in enumerate(row)) / 2
            for row, y in labelled_rows(scores, ys)
        ]
    )


def slow_loss(net, method, batch, moment):
    s, ys = method.settings, batch.labels.tolist()
    hs = [[sigmoid(x) for x in u] for u in net(batch.inputs).u.tolist()]
    scores = [linear(h, net.head.classifier) for h in hs]
    classification = slow_hinges(scores, ys) if method.multi_label else softmax_loss(scores, ys)
    binary = mean([-mean([(x - 0.5) ** 2 for x in h]) / 2 for h, _ in labelled_rows(hs, ys)])
    balance = mean([(mean(h) - 0.5) ** 2 / 2 for h, _ in labelled_rows(hs, ys)])
    return classification + s.binary_weight * binary + s.balance_weight * balance


def test_terms_by_hand():
    y = torch.tensor([0, -1])
    h = torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    assert undecided_bits_loss(h, y).item() == -1 / 8
    assert unbalanced_bits_loss(h, y).item() == (3 / 4 - 1 / 2) ** 2 / 2
    # Class 0 is wanted and has 0.5: (1 − 0.5)²; class 1 is not and has −2: 0; class 2 is not and has 1: (1 + 1)².
    scores = torch.tensor([[0.5, -2.0, 1.0], [9.0, 9.0, 9.0]])
    assert squared_hinge_loss(scores, y).item() == pytest.approx((0.25 + 4) / 2)
    assert squared_hinge_loss(scores, torch.tensor([[1, 0, 0], [0, 0, 0]])).item() == pytest.approx((0.25 + 4) / 2)
