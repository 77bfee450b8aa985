"""A hinge on each bit towards a fixed target code (DPN)."""

import torch
from torch import Tensor

from scdh.losses.distances import full_precision, outputs_beside
from scdh.losses.labels import has_label, label_mask, labels_of, mean_over_labelled


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
    y = labels_of(y, outputs_beside(u, targets, "targets"))
    mask = label_mask(y, len(targets))
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        own = mask.to(u.dtype)
        towards_one = (own @ (targets > 0).to(u.dtype)) * (margin - u).clamp(min=0)
        towards_minus_one = (own @ (targets < 0).to(u.dtype)) * (margin + u).clamp(min=0)
        return mean_over_labelled((towards_one + towards_minus_one).mean(1), has_label(mask))
