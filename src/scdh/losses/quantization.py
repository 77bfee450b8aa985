"""The quantization loss l_q (paper, "Relaxation")."""

import torch
from torch import Tensor

from scdh.errors import ConfigError
from scdh.losses.distances import full_precision, outputs


def quantization_loss(u: Tensor, p: float = 3.0) -> Tensor:
    """l_q(u) = 1 − Σ_k|u_k| / (‖1‖_q ‖u‖_p), 1/p + 1/q = 1; batch mean. The paper's p = 3, q = 1.5.

    By Hölder's inequality 0 ≤ l_q < 1, and 0 iff all |u_k| are equal. It does not depend on the norm of u, so it pushes
    bits away from 0 without fixing a scale. § At u = 0 all |u_k| are equal, so the value is 0 there, and so is the
    gradient.

    Args:
        u: float tensor [B, r], outputs of the hash layer; rows with and without label count alike.
        p: the exponent of the norm, above 1.

    Returns:
        float tensor [], 0 for an empty batch.
    """
    if p <= 1:
        raise ConfigError(f"The quantization loss needs p > 1 (the paper's is 3), not {p}.")
    u = outputs(u)
    with torch.autocast(u.device.type, enabled=False):
        magnitude = full_precision(u).abs()
        if magnitude.numel() == 0:
            return magnitude.sum()
        # The value does not depend on scale, so each row is divided by its largest entry (a constant for autograd):
        # powers of very small or large outputs then neither vanish nor overflow.
        largest = magnitude.detach().amax(1, keepdim=True)
        zero = largest == 0
        magnitude = magnitude / torch.where(zero, 1, largest)
        norm = torch.where(zero.squeeze(1), 1, magnitude.pow(p).sum(1)).pow(1 / p)
        dual_of_ones = u.shape[1] ** (1 - 1 / p)  # ‖1‖_q = r^{1/q}
        per_row = 1 - magnitude.sum(1) / (dual_of_ones * norm)
        return torch.where(zero.squeeze(1), 0, per_row).mean()
