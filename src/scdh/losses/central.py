"""Similarity to a fixed target code instead of to other items (CSQ)."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from scdh.losses.distances import full_precision
from scdh.losses.labels import has_label, mean_over_labelled


def central_similarity_loss(u: Tensor, y: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy of (tanh u + 1)/2 and the target's bits; mean over bits and labelled rows.

    ``targets`` [B, r] are ±1. (tanh u + 1)/2 is the sigmoid of 2u, so it is taken from 2u: logarithms of a tanh that
    rounds to ±1 would be infinite.
    """
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        values = binary_cross_entropy_with_logits(2 * u, (targets.to(u.dtype) + 1) / 2, reduction="none")
        return mean_over_labelled(values.mean(1), has_label(y))
