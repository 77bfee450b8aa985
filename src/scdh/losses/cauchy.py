"""Losses of the Cauchy distribution γ/(γ + d), d = r/2 (1 − cos) for the Hamming distance (DCH)."""

import torch
from torch import Tensor

from scdh.losses.cosine import cosines_of
from scdh.losses.label_masks import has_label, labels_of, mean_over_labelled, similar
from scdh.losses.outputs import outputs
from scdh.losses.pairwise import mean_over_pairs, pairs_of_two

SMALLEST = 1e-6  # added to 1 − cos, as in the authors' release: the loss of two equal dissimilar rows is infinite


def cauchy_pair_loss(u: Tensor, y: Tensor, gamma: float) -> Tensor:
    """w [ s log(d/γ) + log(1 + γ/d) ], d_ij = r/2 (1 − cos(u_i, u_j)); mean over the batch's pairs i ≠ j.

    w is |S|/|S₁| for similar pairs and |S|/|S₀| for dissimilar ones, so both kinds weigh the same in total. For similar
    pairs the two logarithms are log(1 + d/γ).

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        gamma: γ, the scale of the distribution in bits.

    Returns:
        float tensor [], 0 where there is no pair of labelled rows.
    """
    y = labels_of(y, outputs(u))
    ratio = _hamming(cosines_of(u, u), u.shape[1]) / gamma
    same = similar(y, y)
    values = torch.log1p(torch.where(same, ratio, 1 / ratio))
    return 2 * mean_over_pairs(values, pairs_of_two(y), same, balanced=True)


def cauchy_corner_loss(u: Tensor, y: Tensor, gamma: float) -> Tensor:
    """log(1 + d(|u|, 1)/γ), d = r/2 (1 − cos(|u|, 1)); mean over the labelled rows. 0 iff all |u_k| are equal.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.
        gamma: γ.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    cosines = cosines_of(u.abs(), torch.ones_like(u[:1])) if len(u) else u.sum(1, keepdim=True)
    return mean_over_labelled(torch.log1p(_hamming(cosines, u.shape[1]) / gamma).squeeze(1), has_label(y))


def _hamming(cosines: Tensor, bits: int) -> Tensor:
    return bits / 2 * ((1 - cosines).clamp(min=0) + SMALLEST)
