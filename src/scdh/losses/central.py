"""Similarity to a fixed target code instead of to other items (CSQ)."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from scdh.losses.distances import full_precision, same_shape
from scdh.losses.labels import has_label, labels_of, mean_over_labelled


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
