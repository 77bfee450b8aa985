"""Losses of class scores: inner products with a softmax (SCDH-S, SCDH-C, "Ablation Study"), and one score per class.

The softmax itself is in :mod:`scdh.losses.unary`.
"""

import torch
from torch import Tensor

from scdh.losses.label_masks import has_label, label_mask, labels_of, mean_over_labelled
from scdh.losses.outputs import euclidean_distances, full_precision, outputs, outputs_as_wide_as
from scdh.losses.unary import own_softmax_loss, softmax_loss


def inner_product_loss(u: Tensor, y: Tensor, weights: Tensor, own: bool = False) -> Tensor:
    """1/|Y| Σ_{s∈Y} −log softmax_s(c^T u); mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        weights: float tensor [C, r], the paper's c; there is no bias, as in the paper.
        own: own labels do not compete with each other (:func:`own_softmax_loss`).

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs_as_wide_as(u, weights, "weights"))
    with torch.autocast(u.device.type, enabled=False):
        scores = full_precision(u) @ full_precision(weights).T
        return own_softmax_loss(scores, y) if own else softmax_loss(scores, y)


def centre_loss(u: Tensor, y: Tensor, centres: Tensor) -> Tensor:
    """1/|Y| Σ_{s∈Y} ‖u − w_s‖²; mean over the labelled rows. § Wen et al. write ½ before it; this paper does not.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        centres: float tensor [C, r], the paper's w.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs_as_wide_as(u, centres, "centres"))
    mask = label_mask(y, centres.shape[0])
    own_squared = torch.where(mask, euclidean_distances(u, centres).square(), 0).sum(1)
    return mean_over_labelled(own_squared / mask.sum(1).clamp(min=1), has_label(mask))


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
