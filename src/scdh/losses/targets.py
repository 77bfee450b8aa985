"""Losses of bits that have a target each, +1 or −1, or 0 for none (FTDE, DISH).

A row counts where it has a target; one without counts neither in the sum nor in the number it is divided by.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scdh.losses.distances import full_precision, same_shape
from scdh.losses.labels import mean_over_labelled


def bit_likelihood_loss(u: Tensor, targets: Tensor) -> Tensor:
    """Σ_k log(1 + e^{−t_k u_k}) over the bits with a target, −log of the probability σ(t u); mean over rows with any.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        targets: float tensor [B, r] of ±1, and 0 for bits without a target.

    Returns:
        float tensor [], 0 where there is no target.
    """
    u, targets = same_shape(u, targets, "u", "targets")
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        values = torch.where(targets != 0, softplus(-targets.to(u.dtype) * u), 0)
        return mean_over_labelled(values.sum(1), targets.ne(0).any(1))


def bit_hinge_loss(u: Tensor, targets: Tensor) -> Tensor:
    """½ Σ_k max(0, 1 − t_k u_k)² over the bits with a target; mean over rows with any.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        targets: float tensor [B, r] of ±1, and 0 for bits without a target.

    Returns:
        float tensor [], 0 where there is no target.
    """
    u, targets = same_shape(u, targets, "u", "targets")
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        values = torch.where(targets != 0, (1 - targets.to(u.dtype) * u).clamp(min=0).square() / 2, 0)
        return mean_over_labelled(values.sum(1), targets.ne(0).any(1))
