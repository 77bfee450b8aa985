"""What SSDH wants of bits between 0 and 1: each away from ½, and as many on as off."""

import torch
from torch import Tensor

from scdh.losses.distances import full_precision, outputs
from scdh.losses.labels import has_label, labels_of, mean_over_labelled


def undecided_bits_loss(h: Tensor, y: Tensor) -> Tensor:
    """−½ · 1/r Σ_k (h_k − ½)²; mean over the labelled rows. Least, −⅛, where every bit is 0 or 1.

    Args:
        h: float tensor [B, r], bits from 0 to 1.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        return mean_over_labelled(-(full_precision(h) - 0.5).square().mean(1) / 2, has_label(y))


def unbalanced_bits_loss(h: Tensor, y: Tensor) -> Tensor:
    """½ (1/r Σ_k h_k − ½)²; mean over the labelled rows. Least, 0, where half of a row's bits are on.

    Args:
        h: float tensor [B, r], bits from 0 to 1.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        return mean_over_labelled((full_precision(h).mean(1) - 0.5).square() / 2, has_label(y))
