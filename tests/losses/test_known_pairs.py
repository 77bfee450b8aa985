"""Pairwise losses on known pairs: only these count, and masks made of labels give the loss of the labels."""

import math

import pytest
import torch

from scdh.losses.label_masks import both_labelled, similar
from scdh.losses.pairwise import batch_likelihood_loss, contrastive_loss, pair_likelihood_loss, pairs_of_two

KNOWN = {(0, 1): 1, (0, 3): 0, (2, 4): 1, (3, 4): 0, (1, 4): 0}


def draw():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 12, generator=generator, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 2])


def masks():
    same, known = (torch.zeros(5, 5, dtype=torch.bool) for _ in range(2))
    for (i, j), value in KNOWN.items():
        known[i, j] = known[j, i] = True
        same[i, j] = same[j, i] = bool(value)
    return same, known


def mean_over_known(value):
    values = [value(i, j, s) for (i, j), s in KNOWN.items()]
    return sum(values) / len(values)


def test_only_known_pairs_count():
    u, y = draw()

    def contrastive(i, j, s):
        squared = float((u[i] - u[j]).square().sum())
        return (squared if s else max(24 - squared, 0)) / 2

    def likelihood(scale):
        def value(i, j, s):
            theta = scale * float(u[i] @ u[j])
            return math.log1p(math.exp(theta)) - s * theta

        return value

    assert contrastive_loss(u, y, 24, pairs=masks()).item() == pytest.approx(mean_over_known(contrastive))
    assert batch_likelihood_loss(u, y, 0.3, pairs=masks()).item() == pytest.approx(mean_over_known(likelihood(0.3)))
    stored = pair_likelihood_loss(u, y, u, y, pairs=masks()).item()
    assert stored == pytest.approx(mean_over_known(likelihood(0.5)))
    halves = [
        sum(values) / len(values)
        for kind in (0, 1)
        if (values := [likelihood(1)(i, j, s) for (i, j), s in KNOWN.items() if s == kind])
    ]
    assert batch_likelihood_loss(u, y, balanced=True, pairs=masks()).item() == pytest.approx(sum(halves) / 2)
    none = torch.zeros(5, 5, dtype=torch.bool)
    assert batch_likelihood_loss(u, y, pairs=(none, none)).item() == 0


def test_masks_of_labels_give_the_loss_of_the_labels():
    u, y = draw()
    same, two, both = similar(y, y), pairs_of_two(y), both_labelled(y, y)
    assert contrastive_loss(u, y, 24, True, pairs=(same, two)).item() == contrastive_loss(u, y, 24, True).item()
    with_itself = batch_likelihood_loss(u, y, with_itself=True).item()
    assert batch_likelihood_loss(u, y, with_itself=True, pairs=(same, two)).item() == pytest.approx(with_itself)
    seen = torch.tensor([True, True, False, True, True])
    expected = pair_likelihood_loss(u, y, u, y, seen).item()
    assert pair_likelihood_loss(u, y, u, y, seen, (same, both)).item() == expected
