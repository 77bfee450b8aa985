"""Losses of bits with targets, by hand."""

import math

import pytest
import torch

from scdh.losses.target_codes import bit_hinge_loss, bit_likelihood_loss


def test_losses_of_targets_by_hand():
    u = torch.tensor([[0.5, -2.0, 3.0], [1.0, 1.0, 1.0]])
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert bit_hinge_loss(u, targets).item() == pytest.approx((0.5**2 + 3**2) / 2)
    assert bit_likelihood_loss(u, targets).item() == pytest.approx(
        math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(2))
    )
