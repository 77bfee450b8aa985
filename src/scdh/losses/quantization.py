"""Terms that pull outputs towards bits: the paper's l_q, and those of other methods."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scdh.errors import ConfigError
from scdh.losses.label_masks import has_label, labels_of, mean_over_labelled
from scdh.losses.outputs import full_precision, outputs


def quantization_loss(u: Tensor, p: float = 3.0, lengths: Sequence[int] | None = None) -> Tensor:
    """l_q(u) = 1 − Σ_k|u_k| / (‖1‖_q ‖u‖_p), 1/p + 1/q = 1; batch mean. The paper's p = 3, q = 1.5.

    By Hölder's inequality 0 ≤ l_q < 1, and 0 iff all |u_k| are equal. It does not depend on the norm of u, so it pushes
    bits away from 0 without fixing a scale. § At u = 0 all |u_k| are equal, so the value is 0 there, and so is the
    gradient.

    Args:
        u: float tensor [B, r], outputs of the hash layer; rows with and without label count alike.
        p: the exponent of the norm, above 1.
        lengths: ascending numbers b; the loss is the mean over them of that of the first b columns. None: r alone.

    Returns:
        float tensor [], 0 for an empty batch.
    """
    if p <= 1:
        raise ConfigError(f"The quantization loss needs p > 1 (the paper's is 3), not {p}.")
    u = outputs(u)
    with torch.autocast(u.device.type, enabled=False):
        magnitude = full_precision(u).abs()
        if magnitude.numel() == 0:
            return magnitude.sum()
        # The value does not depend on scale, so each row is divided by its largest entry (a constant for autograd):
        # powers of very small or large outputs then neither vanish nor overflow.
        largest = magnitude.detach().amax(1, keepdim=True)
        magnitude = magnitude / torch.where(largest == 0, 1, largest)
        ends = [u.shape[1]] if lengths is None else list(lengths)
        powers = _prefix_sums(magnitude.pow(p), ends)
        zero = powers == 0
        norm = torch.where(zero, 1, powers).pow(1 / p)
        dual_of_ones = norm.new_tensor([end ** (1 - 1 / p) for end in ends])  # ‖1‖_q = b^{1/q}
        return torch.where(zero, 0, 1 - _prefix_sums(magnitude, ends) / (dual_of_ones * norm)).mean()


def _prefix_sums(values: Tensor, ends: list[int]) -> Tensor:
    """Sums [B, P] of the first columns up to each of the ``ends``."""
    sizes = [end - start for start, end in pairwise([0, *ends])]
    parts = values[:, : ends[-1]].split(sizes, 1)
    return torch.stack([part.sum(1) for part in parts], 1).cumsum(1)


def sign_distance_loss(u: Tensor, y: Tensor, p: int) -> Tensor:
    """Σ_k ||u_k| − 1|^p; mean over the labelled rows.

    p = 2 is ‖b − u‖² with b = sgn(u); p = 1 is DSH's ‖|u| − 1‖_1; p = 3 is GreedyHash's.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.
        p: the exponent.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        gap = full_precision(u).abs() - 1
        return mean_over_labelled((gap if p % 2 == 0 else gap.abs()).pow(p).sum(1), has_label(y))


def log_cosh_loss(u: Tensor, y: Tensor) -> Tensor:
    """DHN: Σ_k log cosh(|u_k| − 1), a smooth form of Σ_k ||u_k| − 1|; mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        gap = (full_precision(u).abs() - 1).abs()
        # log cosh x = x + log(1 + e^{−2x}) − log 2: cosh itself overflows from x = 89 on.
        return mean_over_labelled((gap + softplus(-2 * gap) - math.log(2)).sum(1), has_label(y))


def inside_box_loss(h: Tensor, y: Tensor) -> Tensor:
    """Σ_k (1 − h_k²): concave on [−1, 1]^r, and 0 at its corners only; mean over the labelled rows.

    Args:
        h: float tensor [B, r], outputs within [−1, 1].
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        return mean_over_labelled((1 - full_precision(h).square()).sum(1), has_label(y))


def margin_loss(u: Tensor, y: Tensor) -> Tensor:
    """DISH: ½ Σ_k max(0, 1 − 2|u_k|)², which keeps outputs at least ½ away from 0; mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(u))
    with torch.autocast(u.device.type, enabled=False):
        inside = (1 - 2 * full_precision(u).abs()).clamp(min=0)
        return mean_over_labelled((inside.square() / 2).sum(1), has_label(y))


def undecided_bits_loss(h: Tensor, y: Tensor) -> Tensor:
    """−½ · 1/r Σ_k (h_k − ½)²; mean over the labelled rows. Least, −⅛, where every bit is 0 or 1.

    Args:
        h: float tensor [B, r], bits from 0 to 1.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        return mean_over_labelled(-(full_precision(h) - 0.5).square().mean(1) / 2, has_label(y))


def unbalanced_bits_loss(h: Tensor, y: Tensor) -> Tensor:
    """½ (1/r Σ_k h_k − ½)²; mean over the labelled rows. Least, 0, where half of a row's bits are on.

    Args:
        h: float tensor [B, r], bits from 0 to 1.
        y: int64 [B] with −1 for no label, or multi-hot [B, C]; only which rows have a label is read.

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(h, "h"))
    with torch.autocast(h.device.type, enabled=False):
        return mean_over_labelled((full_precision(h).mean(1) - 0.5).square() / 2, has_label(y))
