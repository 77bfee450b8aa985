"""The quantization loss does not depend on scale and is 0 only for equal magnitudes."""

import pytest
import torch

from scdh import losses
from tests.reference.slow_losses import quantization


@pytest.mark.parametrize("bits", [1, 12, 13, 64, 128])
def test_the_mean_over_prefixes_equals_the_slow_twin(bits):
    lengths = sorted({1, (bits + 1) // 2, bits})
    u = torch.randn(6, bits, dtype=torch.float64, generator=torch.Generator().manual_seed(bits))
    parts = [quantization(u[:, :b].tolist(), 3.0) for b in lengths]
    assert losses.quantization_loss(u, 3.0, lengths).item() == pytest.approx(
        sum(parts) / len(parts), rel=1e-9, abs=1e-12
    )


def test_a_prefix_of_zeros_counts_0_and_has_a_finite_gradient():
    u = torch.tensor([[0.0, 0.0, 3.0, 1.0]], requires_grad=True)
    value = losses.quantization_loss(u, 3.0, [2, 4])
    assert value.item() == pytest.approx(losses.quantization_loss(u).item() / 2)
    value.backward()
    assert torch.isfinite(u.grad).all()
