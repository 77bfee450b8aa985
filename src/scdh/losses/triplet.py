"""The hinge over all triplets of a batch, without a tensor of all triplets."""

import torch
from torch import Tensor

from scdh.losses.distances import euclidean_distances, outputs
from scdh.losses.labels import both_labelled, labels_of, similar


def triplet_hinge_loss(h: Tensor, y: Tensor, margin: float) -> Tensor:
    """max(0, m + |h_i − h_j|² − |h_i − h_k|²), mean over all (anchor i, similar j ≠ i, dissimilar k) of labelled rows.

    All B³ triplets cost O(B² (r + log B)): with an anchor's dissimilar distances sorted, those that violate the margin
    of one similar row are a prefix, and Σ_k max(0, x − d_k) = (their number) · x − (their running sum).

    Args:
        h: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        margin: m.

    Returns:
        float tensor [], 0 where there is no triplet.
    """
    y = labels_of(y, outputs(h, "h"))
    squared = euclidean_distances(h, h).square()
    if len(h) == 0:
        return h.sum() + squared.sum()
    same = similar(y, y)
    positive = same & ~torch.eye(len(h), dtype=torch.bool, device=h.device)
    negative = both_labelled(y, y) & ~same

    ordered, order = torch.where(negative, squared, torch.inf).sort(1)
    running = torch.where(negative.gather(1, order), ordered, 0).cumsum(1)
    reach = margin + squared
    violating = torch.searchsorted(ordered.detach(), reach.detach())  # [B, B]: how many k for each (i, j)
    sums = torch.where(violating > 0, running.gather(1, (violating - 1).clamp(min=0)), 0)
    total = torch.where(positive, violating * reach - sums, 0).sum()
    return total / (positive.sum(1) * negative.sum(1)).sum().clamp(min=1)
