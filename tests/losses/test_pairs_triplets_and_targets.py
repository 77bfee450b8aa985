"""Losses over pairs, triplets and fixed targets: against plain loops, by finite differences, and at extreme values."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh import losses
from tests.methods.test_dpsh import slow_pairs as slow_likelihood
from tests.methods.test_dsh import slow_pairs as slow_contrastive
from tests.methods.test_ninh import slow_triplets
from tests.reference.slow_methods import batch_likelihood, mean


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([1, 12, 13]), st.booleans(), st.floats(0, 30))
def test_losses_of_any_batch_equal_their_twins_in_any_order(seed, rows, bits, multi_label, margin):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(rows, bits, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 3, (rows,), generator=generator)
    if multi_label:
        y = (torch.rand(rows, 4, generator=generator) < 0.3).to(torch.uint8)
    order = torch.randperm(rows, generator=generator)
    us, ys = u.tolist(), y.tolist()
    expected = {
        "dsh": slow_contrastive(us, ys, margin),
        "dpsh": slow_likelihood(us, ys, us, ys, [True] * rows),
        "triplet": slow_triplets(us, ys, margin),
        "dsh, balanced": slow_contrastive(us, ys, margin, balanced=True),
        "pairs": mean([x for values in batch_likelihood(us, ys, 0.3) for x in values]),
        "pairs, balanced": sum(mean(values) for values in batch_likelihood(us, ys, 0.3)) / 2,
    }
    for v, labels in ((u, y), (u[order], y[order])):
        values = {
            "dsh": losses.contrastive_loss(v, labels, margin),
            "dpsh": losses.pair_likelihood_loss(v, labels, v, labels),
            "triplet": losses.triplet_hinge_loss(v, labels, margin),
            "dsh, balanced": losses.contrastive_loss(v, labels, margin, balanced=True),
            "pairs": losses.batch_likelihood_loss(v, labels, 0.3),
            "pairs, balanced": losses.batch_likelihood_loss(v, labels, 0.3, balanced=True),
        }
        assert {k: x.item() for k, x in values.items()} == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "loss",
    [
        "dsh",
        "dpsh",
        "pairs",
        "triplet",
        "inner",
        "centre",
        "central",
        "corner",
        "cauchy",
        "margin",
        "likelihood",
        "stored",
        "hinge",
    ],
)
def test_gradients_by_finite_differences(loss):
    generator = torch.Generator().manual_seed(3)
    u = torch.randn(6, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    c = torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 0, -1, 1, 4])
    function = {
        "dsh": lambda u, c: losses.contrastive_loss(u, y, 8.0),
        "dpsh": lambda u, c: losses.pair_likelihood_loss(u, y, torch.ones(2, 4), torch.tensor([0, 1])),
        "pairs": lambda u, c: losses.batch_likelihood_loss(u, y, 0.3, balanced=True),
        "triplet": lambda u, c: losses.triplet_hinge_loss(u, y, 2.0),
        "inner": lambda u, c: losses.inner_product_loss(u, y, c),
        "centre": lambda u, c: losses.centre_loss(u, y, c),
        "central": lambda u, c: losses.central_similarity_loss(u, y, torch.ones(6, 4)),
        "corner": lambda u, c: sum(losses.sign_distance_loss(u, y, p) for p in (1, 2, 3)),
        "cauchy": lambda u, c: losses.cauchy_pair_loss(u, y, 2.0) + losses.cauchy_corner_loss(u, y, 2.0),
        "margin": lambda u, c: losses.cosine_margin_loss(u, y, c, 4.0, 0.3),
        "likelihood": lambda u, c: losses.target_likelihood_loss(u, y, c, 4.0),
        "stored": lambda u, c: losses.similar_pair_loss(u, y, torch.ones(2, 4), torch.tensor([0, 1])),
        "hinge": lambda u, c: losses.polarization_loss(u, y, torch.ones(5, 4), 0.5),
    }[loss]
    assert torch.autograd.gradcheck(lambda u, c: function(u, c) + 0 * c.sum(), (u, c))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-25, 1e15])
def test_zero_and_huge_outputs_stay_finite(size, dtype):
    u = (torch.randn(6, 16) * size).to(dtype).requires_grad_()
    c = torch.randn(4, 16, requires_grad=True)
    for y in (torch.tensor([0, 1, 0, -1, 1, 3]), torch.full((6,), -1), torch.zeros(6, 4, dtype=torch.uint8)):
        total = losses.contrastive_loss(u, y, 32.0) + losses.pair_likelihood_loss(u, y, u, y)
        total = total + losses.sign_distance_loss(u, y, 1) + losses.batch_likelihood_loss(u, y, 0.3, balanced=True)
        total = total + losses.triplet_hinge_loss(u, y, 2.0) + losses.sign_distance_loss(u, y, 2)
        total = total + losses.inner_product_loss(u, y, c) + losses.centre_loss(u, y, c)
        total = total + losses.central_similarity_loss(u, y, torch.ones(6, 16))
        total = total + losses.cauchy_pair_loss(u, y, 20.0) + losses.cauchy_corner_loss(u, y, 20.0)
        total = total + losses.cosine_margin_loss(u, y, c, 8.0, 0.2) + losses.target_likelihood_loss(u, y, c, 8.0)
        total = total + losses.similar_pair_loss(u, y, u, y) + losses.polarization_loss(u, y, c.sign(), 1.0)
        u.grad = c.grad = None
        total.backward()
        assert total.dtype == torch.float32
        assert torch.isfinite(total)
        assert torch.isfinite(u.grad).all()
        assert torch.isfinite(c.grad).all()
        if (y <= 0).all() and y.ndim == 2:
            assert total.item() == 0
            assert not u.grad.any()


def test_an_empty_batch_has_no_loss():
    u, y = torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    total = losses.contrastive_loss(u, y, 8.0) + losses.pair_likelihood_loss(u, y, u, y)
    total = total + losses.triplet_hinge_loss(u, y, 1.0) + losses.batch_likelihood_loss(u, y, 1.0, balanced=True)
    total = total + losses.cauchy_pair_loss(u, y, 20.0) + losses.cauchy_corner_loss(u, y, 20.0)
    total = total + losses.polarization_loss(u, y, torch.ones(3, 4), 1.0) + losses.similar_pair_loss(u, y, u, y)
    total = total + losses.cosine_margin_loss(u, y, torch.ones(3, 4), 8.0, 0.2)
    total = total + losses.target_likelihood_loss(u, y, torch.ones(3, 4), 8.0)
    total.backward()
    assert total.item() == 0
