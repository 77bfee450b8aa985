"""Losses of cosines: to fixed targets (OrthoHash, MDSH) and between rows (MDSH). They do not depend on norms."""

import torch
from torch import Tensor

from scdh.losses.label_masks import both_labelled, has_label, label_mask, labels_of, mean_over_labelled, similar
from scdh.losses.outputs import full_precision, outputs, outputs_as_wide_as, unit_rows
from scdh.losses.unary import softmax_loss


def cosine_margin_loss(u: Tensor, y: Tensor, targets: Tensor, scale: float, margin: float) -> Tensor:
    """1/|Y| Σ_{s∈Y} −log softmax_s( a (cos(u, t_j) − m [j∈Y]) ); mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        targets: float tensor [C, r], the target code of each class.
        scale: a.
        margin: m, taken from the cosines of own labels.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs_as_wide_as(u, targets, "targets"))
    cosines = cosines_of(u, targets)
    return softmax_loss(scale * (cosines - margin * label_mask(y, len(targets))), y)


def target_likelihood_loss(u: Tensor, y: Tensor, targets: Tensor, scale: float) -> Tensor:
    """−1/C Σ_j [ s_j log p_j + (1 − s_j) log(1 − p_j) ], p = softmax(a cos(u, t)); mean over the labelled rows.

    s_j is 1 for own labels, else 0. As 1 − p would round to 0, log(1 − p) of the likeliest class is that of the sum of
    the other probabilities, and log1p(−p) for the rest.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        targets: float tensor [C, r], the target code of each class.
        scale: a.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs_as_wide_as(u, targets, "targets"))
    log_p = (scale * cosines_of(u, targets)).log_softmax(1)
    mask = label_mask(y, len(targets))
    is_likeliest = torch.arange(len(targets), device=u.device) == log_p.argmax(1, keepdim=True)
    if len(targets) == 1:  # p is 1, and no class is left over
        return mean_over_labelled(-log_p.mean(1), has_label(mask))
    others = torch.where(is_likeliest, -torch.inf, log_p).logsumexp(1, keepdim=True)
    log_rest = torch.where(is_likeliest, others, torch.log1p(-torch.where(is_likeliest, 0, log_p.exp())))
    return mean_over_labelled(-torch.where(mask, log_p, log_rest).mean(1), has_label(mask))


def similar_pair_loss(u: Tensor, y: Tensor, stored: Tensor, stored_y: Tensor, seen: Tensor | None = None) -> Tensor:
    """log(1 + e^{(1 − cos(u_i, v_j))/2}), mean over pairs of a batch row and a stored output v_j that share a label.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        stored: float tensor [n, r], outputs v of earlier steps; they get no gradient.
        stored_y: int64 [n] or multi-hot [n, C], their labels.
        seen: bool tensor [n], which rows of ``stored`` are filled; None for all.

    Returns:
        float tensor [], 0 where there is no such pair.
    """
    y = labels_of(y, outputs_as_wide_as(u, stored, "stored outputs"))
    stored_y = labels_of(stored_y, stored)
    values = torch.nn.functional.softplus((1 - cosines_of(u, stored.detach())) / 2)
    valid = similar(y, stored_y) & both_labelled(y, stored_y)
    return mean_over_labelled(values, valid if seen is None else valid & seen)


def cosines_of(u: Tensor, v: Tensor) -> Tensor:
    """cos(u_i, v_j): float [A, B], 0 (with a gradient of 0) for a row of zeros.

    Args:
        u, v: float tensors [A, r] and [B, r].
    """
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(outputs(u))
        return unit_rows(u) @ unit_rows(full_precision(v).to(u.dtype)).T
