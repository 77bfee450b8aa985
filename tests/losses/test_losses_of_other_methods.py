"""Losses of other methods: against plain loops, by finite differences, at extreme values, wrong arguments."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.errors import DataError
from scdh.losses.pairwise import batch_likelihood_loss, cosine_pair_loss
from scdh.losses.quantization import inside_box_loss, log_cosh_loss, margin_loss
from scdh.losses.target_codes import bit_hinge_loss, bit_likelihood_loss
from scdh.losses.triplet import triplet_hinge_loss, triplet_likelihood_loss
from tests.methods.test_dhn import slow_log_cosh
from tests.methods.test_dhn import slow_pairs as slow_likelihood
from tests.methods.test_dqn import slow_pairs as slow_cosine
from tests.methods.test_drlih import slow_ranking
from tests.methods.test_dtsh import slow_triplets
from tests.reference.slow_methods import labelled_rows, mean

LABELLED = {
    "batch likelihood": lambda u, y: batch_likelihood_loss(u, y, with_itself=True),
    "cosine": cosine_pair_loss,
    "log cosh": log_cosh_loss,
    "box": inside_box_loss,
    "margin": margin_loss,
    "triplet likelihood": lambda u, y: triplet_likelihood_loss(u, y, 3.0),
    "plain triplet hinge": lambda u, y: triplet_hinge_loss(u, y, 1.0, squared=False),
}
TARGETED = {"bit likelihood": bit_likelihood_loss, "bit hinge": bit_hinge_loss}


def slow_losses(us, ys):
    rows = labelled_rows(us, ys)
    return {
        "batch likelihood": slow_likelihood(us, ys),
        "cosine": slow_cosine(us, ys),
        "log cosh": slow_log_cosh(us, ys),
        "box": mean([sum(1 - x * x for x in u) for u, _ in rows]),
        "margin": mean([sum(max(0.0, 1 - 2 * abs(x)) ** 2 / 2 for x in u) for u, _ in rows]),
        "triplet likelihood": slow_triplets(us, ys, 3.0),
        "plain triplet hinge": slow_ranking(us, ys, 1.0),
    }


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([1, 12, 13]), st.booleans())
def test_losses_of_any_batch_equal_their_twins_in_any_order(seed, rows, bits, multi_label):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(rows, bits, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 3, (rows,), generator=generator)
    if multi_label:
        y = (torch.rand(rows, 4, generator=generator) < 0.3).to(torch.uint8)
    order = torch.randperm(rows, generator=generator)
    expected = slow_losses(u.tolist(), y.tolist())
    for v, labels in ((u, y), (u[order], y[order])):
        found = {name: loss(v, labels).item() for name, loss in LABELLED.items()}
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


def gradient_batch():
    generator = torch.Generator().manual_seed(3)
    u = torch.randn(6, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    return u, torch.tensor([0, 1, 0, -1, 1, 4]), torch.randint(-1, 2, (6, 4), generator=generator).double()


@pytest.mark.parametrize("name", [*LABELLED, *TARGETED])
def test_gradients_by_finite_differences(name):
    u, y, targets = gradient_batch()
    other = targets if name in TARGETED else y
    assert torch.autograd.gradcheck(lambda u: {**LABELLED, **TARGETED}[name](u, other), (u,))


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-25, 1e15])
def test_zero_and_huge_outputs_stay_finite(name, size, dtype):
    u = (torch.randn(6, 16) * size).to(dtype).requires_grad_()
    for y in (torch.tensor([0, 1, 0, -1, 1, 3]), torch.full((6,), -1), torch.zeros(6, 4, dtype=torch.uint8)):
        u.grad = None
        value = LABELLED[name](u, y)
        value.backward()
        assert value.dtype == torch.float32
        assert torch.isfinite(value)
        assert torch.isfinite(u.grad).all()
        if (y <= 0).all() and (y.ndim == 2 or (y < 0).all()):
            assert value.item() == 0
            assert not u.grad.any()


@pytest.mark.parametrize("name", [*LABELLED, *TARGETED])
def test_an_empty_batch_has_no_loss_and_wrong_arguments_are_one_sentence(name):
    u = torch.zeros(0, 4, requires_grad=True)
    if name in TARGETED:
        assert TARGETED[name](u, torch.zeros(0, 4)).item() == 0
        with pytest.raises(DataError, match=r"u has shape \[2, 4\], but targets has shape \[2, 3\]\.$"):
            TARGETED[name](torch.zeros(2, 4), torch.zeros(2, 3))
        return
    assert LABELLED[name](u, torch.zeros(0, dtype=torch.int64)).item() == 0
    with pytest.raises(DataError, match="There are 3 labels for 2 rows"):
        LABELLED[name](torch.zeros(2, 4), [0, 1, 1])
    with pytest.raises(DataError, match="must be a float tensor"):
        LABELLED[name](torch.zeros(2, 4, dtype=torch.int64), [0, 1])
    assert LABELLED[name](torch.ones(2, 4), [0, 1]).item() == LABELLED[name](torch.ones(2, 4), torch.tensor([0, 1]))
