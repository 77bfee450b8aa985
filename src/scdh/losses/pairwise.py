"""Losses over pairs: s_ij = 1 where i and j share a label, else 0. Only pairs of two labelled rows count.

Where pairs are known instead of labels, ``pairs`` says which are similar and which are known (two bool matrices).

§ The papers sum over pairs; a mean makes the learning rate independent of the sizes of batch and data. Balanced:
similar and dissimilar pairs weigh ½ each in total, however many there are of a kind.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from scdh.losses.label_masks import both_labelled, labels_of, mean_over_labelled, similar
from scdh.losses.outputs import euclidean_distances, full_precision, outputs, outputs_as_wide_as


def contrastive_loss(
    u: Tensor, y: Tensor, margin: float, balanced: bool = False, pairs: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """DSH: s/2 d² + (1 − s)/2 max(m − d², 0), d_ij = |u_i − u_j|; mean over the batch's pairs i ≠ j.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        margin: m. The Hamming distance of ±1 codes is d²/4, so m = 2r wants half of the bits of dissimilar rows to
            differ.
        balanced: similar and dissimilar pairs weigh the same in total.
        pairs: bool [B, B] twice, which pairs are similar and which are known; None: by the labels.

    Returns:
        float tensor [], 0 where there is no pair of labelled rows.
    """
    y = labels_of(y, outputs(u))
    squared = euclidean_distances(u, u).square()
    same, valid = (similar(y, y), pairs_of_two(y)) if pairs is None else pairs
    return mean_over_pairs(torch.where(same, squared, (margin - squared).clamp(min=0)) / 2, valid, same, balanced)


def batch_likelihood_loss(
    h: Tensor,
    y: Tensor,
    scale: float = 1.0,
    balanced: bool = False,
    with_itself: bool = False,
    pairs: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """log(1 + e^θ) − s θ, θ_ij = a h_i · h_j; mean over the batch's pairs. Both sides of a pair get gradients.

    Args:
        h: float tensor [B, r], relaxed codes.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        scale: a.
        balanced: similar and dissimilar pairs weigh the same in total.
        with_itself: whether a row with itself is a pair (DHN).
        pairs: bool [B, B] twice, which pairs are similar and which are known; None: by the labels.

    Returns:
        float tensor [], 0 where there is no pair of labelled rows.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        h = full_precision(h)
        theta = scale * (h @ h.T)
        if pairs is None:
            same, valid = similar(y, y), both_labelled(y, y) if with_itself else pairs_of_two(y)
        else:
            itself = torch.eye(len(h), dtype=torch.bool, device=h.device) & with_itself
            same, valid = (mask | itself for mask in pairs)
        return mean_over_pairs(softplus(theta) - torch.where(same, theta, 0), valid, same, balanced)


def pairs_of_two(y: Tensor) -> Tensor:
    """bool [B, B]: pairs of two different rows that both have a label."""
    return both_labelled(y, y) & ~torch.eye(len(y), dtype=torch.bool, device=y.device)


def mean_over_pairs(values: Tensor, valid: Tensor, same: Tensor, balanced: bool) -> Tensor:
    """The mean of ``values`` [A, B] over the valid pairs; balanced: ½ of the mean over similar ones and ½ of the mean
    over dissimilar ones, of which one may be missing.
    """
    if not balanced:
        return mean_over_labelled(values, valid)
    return (mean_over_labelled(values, valid & same) + mean_over_labelled(values, valid & ~same)) / 2


def pair_likelihood_loss(
    u: Tensor,
    y: Tensor,
    stored: Tensor,
    stored_y: Tensor,
    seen: Tensor | None = None,
    pairs: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """DPSH: −[s θ − log(1 + e^θ)], θ_ij = u_i · v_j / 2; mean over pairs of a batch row and a stored output v_j.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        stored: float tensor [n, r], outputs v of earlier steps; they get no gradient.
        stored_y: int64 [n] or multi-hot [n, C], their labels.
        seen: bool tensor [n], which rows of ``stored`` are filled; None for all.
        pairs: bool [B, n] twice, which pairs are similar and which are known; None: by the labels.

    Returns:
        float tensor [], 0 where there is no pair of labelled rows.
    """
    y = labels_of(y, outputs_as_wide_as(u, stored, "stored outputs"))
    stored_y = labels_of(stored_y, stored)
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        theta = u @ stored.detach().to(u.dtype).T / 2
        same, valid = (similar(y, stored_y), both_labelled(y, stored_y)) if pairs is None else pairs
        values = softplus(theta) - torch.where(same, theta, 0)
        return mean_over_labelled(values, valid if seen is None else valid & seen)


def cosine_pair_loss(z: Tensor, y: Tensor) -> Tensor:
    """DQN: (t_ij − cos(z_i, z_j))², t = 2s − 1; mean over the batch's pairs, a row with itself among them.

    Args:
        z: float tensor [B, d]; the cosine of a row of zeros is 0.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(z, "z"))
    with torch.autocast(z.device.type, enabled=False):
        z = full_precision(z)
        # Each row is divided by its largest entry first (a constant for autograd): squares then stay in range.
        largest = z.detach().abs().amax(1, keepdim=True) if z.shape[1] else z.new_ones(len(z), 1)
        unit = normalize(z / torch.where(largest > 0, largest, 1), dim=1)
        target = torch.where(similar(y, y), 1.0, -1.0)
        return mean_over_labelled((target - unit @ unit.T).square(), both_labelled(y, y))
