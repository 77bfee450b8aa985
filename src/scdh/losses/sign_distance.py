"""The distance of outputs from the nearest corner of {−1, 1}^r: a quantization term of the pairwise methods and CSQ."""

import torch
from torch import Tensor

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
