"""Losses towards target codes of ±1: one code per row (CSQ), one per class (DPN), or single bits (FTDE, DISH)."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from scdh.losses.label_masks import has_label, label_mask, labels_of, mean_over_labelled
from scdh.losses.outputs import full_precision, outputs_as_wide_as, same_shape


def central_similarity_loss(u: Tensor, y: Tensor, targets: Tensor) -> Tensor:
    """−1/r Σ_k [t_k log x_k + (1 − t_k) log(1 − x_k)], x = (tanh u + 1)/2, t = (target + 1)/2; mean over labelled rows.

    x is the sigmoid of 2u and is computed from 2u: the logarithm of a tanh that rounds to ±1 would be infinite.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.
        targets: float tensor [B, r] of ±1, the target code of each row.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    u, targets = same_shape(u, targets, "u", "targets")
    y = labels_of(y, u)
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        values = binary_cross_entropy_with_logits(2 * u, (targets.to(u.dtype) + 1) / 2, reduction="none")
        return mean_over_labelled(values.mean(1), has_label(y))


def polarization_loss(u: Tensor, y: Tensor, targets: Tensor, margin: float) -> Tensor:
    """1/r Σ_{s∈Y} Σ_k max(0, m − u_k t_sk); mean over the labelled rows.

    Only how many targets of Y have +1 and −1 in a bit counts, so no tensor is larger than [B, C] or [B, r].

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        targets: float tensor [C, r] of ±1, the target code of each class.
        margin: m.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs_as_wide_as(u, targets, "targets"))
    mask = label_mask(y, len(targets))
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        own = mask.to(u.dtype)
        towards_one = (own @ (targets > 0).to(u.dtype)) * (margin - u).clamp(min=0)
        towards_minus_one = (own @ (targets < 0).to(u.dtype)) * (margin + u).clamp(min=0)
        return mean_over_labelled((towards_one + towards_minus_one).mean(1), has_label(mask))


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
