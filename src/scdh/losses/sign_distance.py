"""The distance of outputs from the nearest corner of {−1, 1}^r: quantization terms of pairwise methods and CSQ."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scdh.losses.distances import full_precision, outputs
from scdh.losses.labels import has_label, labels_of, mean_over_labelled


def sign_distance_loss(u: Tensor, y: Tensor, p: int) -> Tensor:
    """Σ_k ||u_k| − 1|^p; mean over the labelled rows.

    p = 2 is ‖b − u‖² with b = sgn(u); p = 1 is DSH's ‖|u| − 1‖_1; p = 3 is GreedyHash's.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.
        p: the exponent.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        gap = full_precision(u).abs() - 1
        return mean_over_labelled((gap if p % 2 == 0 else gap.abs()).pow(p).sum(1), has_label(y))


def log_cosh_loss(u: Tensor, y: Tensor) -> Tensor:
    """DHN: Σ_k log cosh(|u_k| − 1), a smooth form of Σ_k ||u_k| − 1|; mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        gap = (full_precision(u).abs() - 1).abs()
        # log cosh x = x + log(1 + e^{−2x}) − log 2: cosh itself overflows from x = 89 on.
        return mean_over_labelled((gap + softplus(-2 * gap) - math.log(2)).sum(1), has_label(y))


def inside_box_loss(h: Tensor, y: Tensor) -> Tensor:
    """Σ_k (1 − h_k²): concave on [−1, 1]^r, and 0 at its corners only; mean over the labelled rows.

    Args:
        h: float tensor [B, r], outputs within [−1, 1].
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        return mean_over_labelled((1 - full_precision(h).square()).sum(1), has_label(y))


def margin_loss(u: Tensor, y: Tensor) -> Tensor:
    """DISH: ½ Σ_k max(0, 1 − 2|u_k|)², which keeps outputs at least ½ away from 0; mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        inside = (1 - 2 * full_precision(u).abs()).clamp(min=0)
        return mean_over_labelled((inside.square() / 2).sum(1), has_label(y))
