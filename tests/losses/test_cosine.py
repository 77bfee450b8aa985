"""Losses of cosines keep their digits where probabilities round to 1."""

import pytest
import torch

from scdh import losses


def test_a_likelihood_near_1_keeps_the_digits_of_the_rest():
    """−log(1 − p) of a wrong class with p ≈ 1 is about the difference of the scores, where 1 − p rounds to 0."""
    targets = torch.tensor([[1.0, 0], [-1, 0]])
    u = torch.tensor([[1.0, 0]], requires_grad=True)
    value = losses.target_likelihood_loss(u, torch.tensor([1]), targets, 20.0)
    value.backward()
    assert value.item() == pytest.approx(40, rel=1e-6)  # both classes: 40 for −log p₁, 40 for −log(1 − p₀), mean
    assert torch.isfinite(u.grad).all()
    assert losses.target_likelihood_loss(u, torch.tensor([0]), targets, 20.0).item() == pytest.approx(0, abs=1e-6)
    assert losses.target_likelihood_loss(u, torch.tensor([0]), targets[:1], 20.0).item() == 0
