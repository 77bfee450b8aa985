"""Label sets as the losses read them: one label, many labels, or none.

``y`` is int64 [B] with −1 for "no label", or multi-hot [B, C] where a row of zeros is "no label".
"""

import torch
from torch import Tensor

from scdh.errors import DataError


def label_mask(y: Tensor, num_classes: int) -> Tensor:
    """Y_i as a bool matrix [B, C]: entry (i, s) says whether s ∈ Y_i."""
    if y.ndim == 2:
        if y.shape[1] != num_classes:
            raise DataError(f"Labels have {y.shape[1]} columns but there are {num_classes} centres or classes.")
        return y > 0
    if y.ndim != 1 or y.is_floating_point() or y.dtype == torch.bool:
        raise DataError(
            f"Labels must be whole numbers [B] or multi-hot [B, C], not {y.dtype} of shape {tuple(y.shape)}."
        )
    # The check reads the values, which would make a GPU wait at every step; there the data layer's own check stands.
    if y.device.type == "cpu" and y.numel() and (int(y.max()) >= num_classes or int(y.min()) < -1):
        wrong = int(y.max()) if int(y.max()) >= num_classes else int(y.min())
        raise DataError(f"Label {wrong} is out of range; labels must be 0…{num_classes - 1}, or −1 for none.")
    return y.unsqueeze(1) == torch.arange(num_classes, device=y.device)


def has_label(y: Tensor) -> Tensor:
    """Which rows have a label at all: bool [B]."""
    return (y > 0).any(1) if y.ndim == 2 else y >= 0


def similar(y_a: Tensor, y_b: Tensor) -> Tensor:
    """s_ij = whether i and j share at least one label: bool [A, B]. A row without label is similar to nothing."""
    if y_a.ndim != y_b.ndim or (y_a.ndim == 2 and y_a.shape[1] != y_b.shape[1]):
        raise DataError(f"Labels of shapes {tuple(y_a.shape)} and {tuple(y_b.shape)} cannot be compared.")
    if y_a.ndim == 2:
        # A product of 0s and 1s: even in half precision a count above 0 stays above 0.
        return (y_a > 0).float() @ (y_b > 0).float().T > 0
    return (y_a.unsqueeze(1) == y_b) & has_label(y_a).unsqueeze(1)


def both_labelled(y_a: Tensor, y_b: Tensor) -> Tensor:
    """Which pairs may be judged, bool [A, B]: nothing is known of a pair unless both have a label."""
    return has_label(y_a).unsqueeze(1) & has_label(y_b)


def mean_over_labelled(values: Tensor, labelled: Tensor) -> Tensor:
    """Mean over the rows (or pairs) that have labels; 0 (with a gradient of 0) where none has.

    § The paper sums over all items; a batch mean keeps the learning rate independent of the batch size, and unlabelled
    rows must not dilute the supervised part.
    """
    return torch.where(labelled, values, 0).sum() / labelled.sum().clamp(min=1)
