"""Losses that ask of each class by itself whether a row has it; the softmax is in ``unary``."""

import torch
from torch import Tensor

from scdh.losses.distances import full_precision, outputs
from scdh.losses.labels import has_label, label_mask, labels_of, mean_over_labelled


def squared_hinge_loss(scores: Tensor, y: Tensor) -> Tensor:
    """½ Σ_s max(0, 1 − t_s x_s)², t_s = 1 for s ∈ Y, else −1; mean over the labelled rows (SSDH with many labels).

    Args:
        scores: float tensor [B, C], x.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(scores, "scores"))
    mask = label_mask(y, scores.shape[1])
    with torch.autocast(scores.device.type, enabled=False):
        x = full_precision(scores)
        values = (1 - torch.where(mask, x, -x)).clamp(min=0).square().sum(1) / 2
        return mean_over_labelled(values, has_label(mask))


def squared_sigmoid_loss(scores: Tensor, y: Tensor) -> Tensor:
    """½ Σ_s (σ(x_s) − y_s)², y_s = 1 for s ∈ Y, else 0; mean over the labelled rows (SemiSDH).

    Args:
        scores: float tensor [B, C], x.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(scores, "scores"))
    mask = label_mask(y, scores.shape[1])
    with torch.autocast(scores.device.type, enabled=False):
        probabilities = full_precision(scores).sigmoid()
        values = (probabilities - mask.to(probabilities.dtype)).square().sum(1) / 2
        return mean_over_labelled(values, has_label(mask))
