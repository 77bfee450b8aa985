"""Losses over all triplets of a batch: a hinge, without a tensor of all triplets, and a likelihood."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scdh.losses.label_masks import both_labelled, labels_of, similar
from scdh.losses.outputs import euclidean_distances, full_precision, outputs


def triplet_hinge_loss(h: Tensor, y: Tensor, margin: float, squared: bool = True) -> Tensor:
    """max(0, m + |h_i − h_j|² − |h_i − h_k|²), mean over all (anchor i, similar j ≠ i, dissimilar k) of labelled rows.

    All B³ triplets cost O(B² (r + log B)): with an anchor's dissimilar distances sorted, those that violate the margin
    of one similar row are a prefix, and Σ_k max(0, x − d_k) = (their number) · x − (their running sum).

    Args:
        h: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        margin: m.
        squared: whether distances are squared, as above.

    Returns:
        float tensor [], 0 where there is no triplet.
    """
    y = labels_of(y, outputs(h, "h"))
    distances = euclidean_distances(h, h)
    if squared:
        distances = distances.square()
    if len(h) == 0:
        return h.sum() + distances.sum()
    positive, negative = _pairs_of_anchors(y)

    ordered, order = torch.where(negative, distances, torch.inf).sort(1)
    running = torch.where(negative.gather(1, order), ordered, 0).cumsum(1)
    reach = margin + distances
    violating = torch.searchsorted(ordered.detach(), reach.detach())  # [B, B]: how many k for each (i, j)
    sums = torch.where(violating > 0, running.gather(1, (violating - 1).clamp(min=0)), 0)
    total = torch.where(positive, violating * reach - sums, 0).sum()
    return total / (positive.sum(1) * negative.sum(1)).sum().clamp(min=1)


def triplet_likelihood_loss(u: Tensor, y: Tensor, margin: float) -> Tensor:
    """DTSH: −log σ(θ_ij − θ_ik − m), θ_ij = u_i · u_j / 2; mean over all triplets as in :func:`triplet_hinge_loss`.

    It takes memory for each (anchor, similar) pair with every row of the batch.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        margin: m.

    Returns:
        float tensor [], 0 where there is no triplet.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        theta = u @ u.T / 2
        positive, negative = _pairs_of_anchors(y)
        anchors, near = positive.nonzero(as_tuple=True)
        values = softplus(margin + theta[anchors] - theta[anchors, near].unsqueeze(1))
        counted = negative[anchors]
        return torch.where(counted, values, 0).sum() / counted.sum().clamp(min=1)


def _pairs_of_anchors(y: Tensor) -> tuple[Tensor, Tensor]:
    """bool [B, B] twice: (i, j) with j similar to i and another row, and (i, k) with k dissimilar to i."""
    same = similar(y, y)
    return same & ~torch.eye(len(y), dtype=torch.bool, device=y.device), both_labelled(y, y) & ~same
