"""Distances between outputs and semantic cluster centres."""

import torch
from torch import Tensor


def full_precision(x: Tensor) -> Tensor:
    """The same values as float32, or float64 where they are: sums over bits and a softmax need more than 16 bits."""
    return x if x.dtype == torch.float64 else x.float()


def euclidean_distances(u: Tensor, centres: Tensor) -> Tensor:
    """d_ij = |u_i − c_j|.

    § The gradient of d at d = 0 is undefined; it is 0 here (as in ``cdist``), never NaN. The shorter matrix-product
    form of the distance is not used: it loses all digits where u and c are far from 0 and close together. Dividing by
    the largest entry first keeps squares of very large or very small vectors inside float32's range; the divisor is a
    constant for autograd and changes neither value nor gradient.

    Args:
        u: float tensor [B, r].
        centres: float tensor [C, r].

    Returns:
        float tensor [B, C], float32 at least.
    """
    with torch.autocast(u.device.type, enabled=False):
        u, centres = full_precision(u), full_precision(centres)
        if u.numel() == 0 or centres.numel() == 0:
            return u.new_zeros(u.shape[0], centres.shape[0])
        scale = torch.maximum(u.detach().abs().max(), centres.detach().abs().max())
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        return scale * torch.cdist(u / scale, centres / scale, compute_mode="donot_use_mm_for_euclid_dist")
