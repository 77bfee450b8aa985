"""The quantization loss does not depend on scale and is 0 only for equal magnitudes."""

import pytest
import torch

from scdh import losses
from scdh.errors import ConfigError


def test_quantization_loss_is_zero_only_for_equal_magnitudes_and_scale_free():
    signs = torch.randn(5, 20).sign()
    assert losses.quantization_loss(signs * 7).item() == pytest.approx(0, abs=1e-6)
    u = torch.randn(5, 20)
    assert losses.quantization_loss(u).item() > 0.01
    assert losses.quantization_loss(u * 1e6).item() == pytest.approx(losses.quantization_loss(u).item(), rel=1e-5)
    with pytest.raises(ConfigError, match="p > 1"):
        losses.quantization_loss(u, p=1.0)
