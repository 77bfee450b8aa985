"""Inner products in place of distances: the losses of the paper's variants SCDH-S and SCDH-C ("Ablation Study")."""

import torch
from torch import Tensor

from scdh.losses.distances import euclidean_distances, full_precision, outputs_beside
from scdh.losses.labels import has_label, label_mask, labels_of, mean_over_labelled
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
    y = labels_of(y, outputs_beside(u, weights, "weights"))
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
    y = labels_of(y, outputs_beside(u, centres, "centres"))
    mask = label_mask(y, centres.shape[0])
    own_squared = torch.where(mask, euclidean_distances(u, centres).square(), 0).sum(1)
    return mean_over_labelled(own_squared / mask.sum(1).clamp(min=1), has_label(mask))
