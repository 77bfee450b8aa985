"""Losses on bits, single classes, neighbours and contexts: by finite differences, at extreme values, without rows."""

import pytest
import torch

from scdh import losses

Y = torch.tensor([0, 1, 0, -1, 1, -1, 2, -1])
MET = torch.rand(8, 8, generator=torch.Generator().manual_seed(1))
LOSSES = {
    "undecided": lambda h, x: losses.undecided_bits_loss(h, Y[: len(h)]),
    "unbalanced": lambda h, x: losses.unbalanced_bits_loss(h, Y[: len(h)]),
    "hinge": lambda h, x: losses.squared_hinge_loss(x, Y[: len(h)]),
    "sigmoid": lambda h, x: losses.squared_sigmoid_loss(x, Y[: len(h)]),
    "neighbours": lambda h, x: losses.neighbour_loss(h, 2, (5, 7), 3.0),
    "pseudo": lambda h, x: losses.pseudo_label_loss(h, x, Y[: len(h)], 3.0),
    "contexts": lambda h, x: losses.graph_context_loss(h, x[:, :4], MET[: len(h), : len(x)], Y[: len(h)] < 1),
}


def draw(size=1.0, dtype=torch.float64, rows=8):
    generator = torch.Generator().manual_seed(2)
    h, x = (
        (size * torch.randn(rows, width, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()
        for width in (4, 5)
    )
    return h, x


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_finite_differences(name):
    h, x = draw()
    inputs = (h, x.detach()) if name == "pseudo" else (h, x)  # scores get no gradient
    assert LOSSES[name](*inputs).item() != 0
    assert torch.autograd.gradcheck(lambda h, x: LOSSES[name](h, x) + 0 * (h.sum() + x.sum()), inputs)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-20, 1e8])
def test_zero_and_huge_values_stay_finite(name, size, dtype):
    h, x = draw(size, dtype)
    value = LOSSES[name](h, x)
    (value + 0 * (h.float().sum() + x.float().sum())).backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    assert torch.isfinite(h.grad).all()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_batch_has_no_loss(name):
    h, x = draw(rows=0)
    assert LOSSES[name](h, x).item() == 0


def test_rows_outside_the_graph_do_not_count():
    h, x = draw()
    met, known = x.softmax(1), torch.tensor([True, False] * 4)
    w = torch.randn(5, 4, dtype=torch.float64)
    alone = losses.graph_context_loss(h[known], w, met[known], torch.ones(4, dtype=torch.bool))
    assert losses.graph_context_loss(h, w, met, known).item() == pytest.approx(alone.item())
