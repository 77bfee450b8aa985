"""Distances between outputs and semantic cluster centres."""

import torch
from torch import Tensor


def full_precision(x: Tensor) -> Tensor:
    """float32 at least: half-precision sums over bits and softmax over classes lose what the loss is about."""
    return x if x.dtype == torch.float64 else x.float()


def euclidean_distances(u: Tensor, centres: Tensor) -> Tensor:
    """d_ij = |u_i − c_j|, Euclidean: u [B, r], centres [C, r] → [B, C].

    § The gradient of d at d = 0 is undefined; it is taken as 0 (that is what ``cdist`` does), never NaN. The shorter
    matrix-product form of the distance is avoided: it loses all digits when u and c are far out and close together.
    Dividing by the largest entry first keeps squares of very far or very small vectors inside float32's range; the
    factor is a constant for autograd and leaves value and gradient as they are.
    """
    with torch.autocast(u.device.type, enabled=False):
        u, centres = full_precision(u), full_precision(centres)
        if u.numel() == 0 or centres.numel() == 0:
            return u.new_zeros(u.shape[0], centres.shape[0])
        scale = torch.maximum(u.detach().abs().max(), centres.detach().abs().max())
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        return scale * torch.cdist(u / scale, centres / scale, compute_mode="donot_use_mm_for_euclid_dist")
