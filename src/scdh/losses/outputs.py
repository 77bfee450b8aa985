"""Checks of the hash layer's outputs, and their distances to semantic cluster centres."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from scdh.errors import DataError


def full_precision(x: Tensor) -> Tensor:
    """The values as float32; float64 stays. Sums over bits and a softmax need more than 16 bits."""
    return x if x.dtype == torch.float64 else x.float()


def euclidean_distances(u: Tensor, centres: Tensor) -> Tensor:
    """d_ij = |u_i − c_j|.

    § The gradient of d at d = 0 is undefined; it is 0 here (as in ``cdist``), never NaN. The shorter matrix-product
    form of the distance is not used: it loses all digits if u and c are far from 0 and close together. Dividing by
    the largest entry first keeps squares of very large or very small vectors inside float32's range; the divisor is a
    constant for autograd and changes neither value nor gradient.

    Args:
        u: float tensor [B, r].
        centres: float tensor [C, r].

    Returns:
        float tensor [B, C], float32 at least.
    """
    return prefix_distances(u, centres, [u.shape[1]])[0]


def prefix_distances(u: Tensor, centres: Tensor, lengths: Sequence[int]) -> Tensor:
    """As :func:`euclidean_distances`, of the first b numbers for each b of P ``lengths``: [P, B, C]."""
    with torch.autocast(u.device.type, enabled=False):
        u, centres = full_precision(u), full_precision(centres)
        precision = torch.promote_types(u.dtype, centres.dtype)
        u, centres = u.to(precision), centres.to(precision)
        if u.numel() == 0 or centres.numel() == 0:
            return u.new_zeros(len(lengths), u.shape[0], centres.shape[0])
        scale = torch.maximum(u.detach().abs().max(), centres.detach().abs().max())
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        u, centres, mode = u / scale, centres / scale, "donot_use_mm_for_euclid_dist"
        return scale * torch.stack([torch.cdist(u[:, :b], centres[:, :b], compute_mode=mode) for b in lengths])


def unit_rows(u: Tensor) -> Tensor:
    """u / |u| of each row; a row of zeros stays 0, with a gradient of 0.

    Dividing by the largest entry first (a constant for autograd) keeps squares inside float32's range; as u / |u| does
    not depend on scale, neither value nor gradient changes.

    Args:
        u: float tensor [B, r], float32 at least.
    """
    largest = u.detach().abs().amax(1, keepdim=True) if u.numel() else u.new_ones(len(u), 1)
    u = u / torch.where(largest > 0, largest, 1)
    return torch.where(largest > 0, u / torch.where(largest > 0, u, 1).norm(dim=1, keepdim=True), 0)


def outputs(u: Any, name: str = "u") -> Tensor:
    """The outputs, checked: a float tensor [B, r]. Through an array, no gradient would reach the network."""
    if not isinstance(u, Tensor):
        raise DataError(f"{name} must be a torch tensor [rows, columns], not {shown(u)}.")
    if u.ndim != 2 or not u.is_floating_point():
        raise DataError(f"{name} must be a float tensor [rows, columns], not {u.dtype} of shape {list(u.shape)}.")
    return u


def outputs_as_wide_as(u: Any, other: Tensor, other_name: str, name: str = "u") -> Tensor:
    """As :func:`outputs`, and as wide as ``other`` [n, r], the centres or weights, on the same device."""
    u = outputs(u, name)
    if u.shape[1] != other.shape[1]:
        raise DataError(
            f"{name} has {u.shape[1]} columns, but the {other_name} have {other.shape[1]}; both are the number of bits."
        )
    _check_device(u, other, name, f"the {other_name}")
    return u


def same_shape(u: Any, other: Any, name: str, other_name: str) -> tuple[Tensor, Tensor]:
    """Two float tensors [B, …] of one shape, whose rows belong together."""
    u, other = outputs(u, name), outputs(other, other_name)
    if u.shape != other.shape:
        raise DataError(f"{name} has shape {list(u.shape)}, but {other_name} has shape {list(other.shape)}.")
    _check_device(u, other, name, other_name)
    return u, other


def _check_device(u: Tensor, other: Tensor, name: str, other_name: str) -> None:
    if u.device != other.device:
        raise DataError(f"{name} is on {u.device}, but {other_name} on {other.device}; move one with .to(device).")


def shown(value: Any) -> str:
    """A short form of a value, with its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"
