"""The triplet ranking loss and its unary upper bounds (paper, "Unary Upper Bound" and Prop. 1).

These are plain sums in float64, O(n³) for the triplets: they show that the bound holds, and are not used for training.
g(a, b) is monotone and 1-Lipschitz in both arguments: "hinge" [m + a − b]_+ or "softmax" (NCA) log(1 + e^{a−b}).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scdh.errors import ConfigError, DataError, unknown_name
from scdh.losses.label_masks import has_label, label_mask, labels_of
from scdh.losses.outputs import euclidean_distances, outputs, outputs_as_wide_as


def _g(kind: str, margin: float, a: Tensor, b: Tensor) -> Tensor:
    if kind == "hinge":
        return (margin + a - b).clamp(min=0)
    if kind == "softmax":
        return softplus(a - b)
    raise ConfigError(unknown_name("triplet kernel g", kind, ("hinge", "softmax")))


def _array(values: Any, name: str) -> Tensor:
    """Any array as a float64 tensor [n, r]."""
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name} must be an array of real numbers [rows, columns].") from None
    return outputs(tensor, name)


def _label_matrix(y: Any, h: Tensor, num_classes: int | None = None) -> tuple[Tensor, bool]:
    """:func:`label_mask` of any array, and whether it is multi-hot."""
    y = labels_of(y, h)
    if y.ndim == 2:
        return label_mask(y, num_classes or y.shape[1]), True
    return label_mask(y, num_classes or (max(int(y.max()), 0) + 1 if len(y) else 1)), False


def triplet_ranking_loss(h: Any, y: Any, g: str = "hinge", margin: float = 1.0) -> float:
    """Σ_{(i,j)∈S, (i,k)∉S} r_ij g(|h_i − h_j|, |h_i − h_k|), r_ij = |Y_i ∩ Y_j| (1 for one label).

    § S holds every pair with a common label, so (i, i) ∈ S too: the paper's derivation sums j over the whole class.
    Rows without label are left out.

    Args:
        h: float array [n, r].
        y: int array [n] with −1 for no label, or multi-hot [n, C].
        g: "hinge" or "softmax", see the top of this file.
        margin: m of the hinge.
    """
    h = _array(h, "h")
    labels, _ = _label_matrix(y, h)
    labelled = has_label(labels)
    h, shared = h[labelled], labels[labelled].double() @ labels[labelled].double().T
    distances = euclidean_distances(h, h)
    total = 0.0
    for i in range(len(h)):  # one anchor at a time: n × n, never n × n × n in memory
        similar = shared[i] > 0
        values = _g(g, margin, distances[i, similar][:, None], distances[i, ~similar][None, :])
        total += float((shared[i, similar][:, None] * values).sum())
    return total


def unary_upper_bound(h: Any, y: Any, centres: Any, g: str = "hinge", margin: float = 1.0) -> float:
    """(n/C)² (C−1) Σ_i [l_c + 2 d_{i,y_i}], l_c = 1/(C−1) Σ_{l≠y} g(d_iy, d_il).

    For balanced labels it is never below the triplet loss, whatever the centres are.

    Args:
        h: float array [n, r].
        y: int array [n] with −1 for no label. Multi-hot [n, C] gives :func:`multilabel_upper_bound`.
        centres: float array [C, r].
        g: "hinge" or "softmax", see the top of this file.
        margin: m of the hinge.
    """
    centres = _array(centres, "centres")
    h = outputs_as_wide_as(_array(h, "h"), centres, "centres", "h")
    num_classes = len(centres)
    labels, multi = _label_matrix(y, h, num_classes)
    if multi:
        return multilabel_upper_bound(h, y, centres, g=g, margin=margin)
    labelled = has_label(labels)
    h, labels = h[labelled], labels[labelled]
    distances = euclidean_distances(h, centres)
    d_iy = distances[labels][:, None]
    l_c = torch.where(labels, 0, _g(g, margin, d_iy, distances)).sum() / max(num_classes - 1, 1)
    return float((len(h) / num_classes) ** 2 * (num_classes - 1) * (l_c + 2 * d_iy.sum()))


def multilabel_upper_bound(
    h: Any, y: Any, centres: Any, p: float | None = None, g: str = "hinge", margin: float = 1.0
) -> float:
    """Proposition 1: (C−1) p² n² Σ_i [q(|Y_i|) l_mc + (Q + q(|Y_i|)) Σ_{s∈Y_i} d_is].

    It bounds the expectation of the triplet loss where each label is present with probability p, independently.
    q(x) = (C−x)/(C−1) · (1−p)^x, Q = (1−p)²(1−p²)^{C−2}, l_mc = 1/(C−|Y|) Σ_{s∈Y} Σ_{t∉Y} g(d_is, d_it).

    Args:
        h: float array [n, r].
        y: multi-hot array [n, C], or int array [n] with −1 for no label.
        centres: float array [C, r].
        p: probability of a label; None for the share of ones in ``y``.
        g: "hinge" or "softmax", see the top of this file.
        margin: m of the hinge.
    """
    centres = _array(centres, "centres")
    h = outputs_as_wide_as(_array(h, "h"), centres, "centres", "h")
    labels, _ = _label_matrix(y, h, len(centres))
    n, num_classes = labels.shape
    p = float(labels.double().mean()) if p is None else p
    distances = euclidean_distances(h, centres)
    big_q = (1 - p) ** 2 * (1 - p**2) ** (num_classes - 2)
    total = 0.0
    for i in range(n):
        d_is, d_it = distances[i, labels[i]], distances[i, ~labels[i]]
        size = len(d_is)
        small_q = (num_classes - size) / max(num_classes - 1, 1) * (1 - p) ** size
        l_mc = float(_g(g, margin, d_is[:, None], d_it[None, :]).sum()) / max(num_classes - size, 1)
        total += small_q * l_mc + (big_q + small_q) * float(d_is.sum())
    return (num_classes - 1) * p**2 * n**2 * total
