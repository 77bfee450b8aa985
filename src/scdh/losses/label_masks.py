"""Labels as the losses read them: one label, several labels, or none.

``y`` is int64 [B] with −1 for no label, or multi-hot [B, C] with a row of zeros for no label
(:mod:`scdh.label_arrays` has the same rule for numpy arrays).

Arguments are checked by shape and type: reading values would make a GPU wait at every step.
"""

from typing import Any

import torch
from torch import Tensor

from scdh.errors import DataError
from scdh.label_arrays import NO_LABEL
from scdh.losses.outputs import shown


def labels_of(y: Any, u: Tensor) -> Tensor:
    """The labels of the rows of ``u`` as a tensor on its device; arrays and lists are taken as well.

    Args:
        y: whole numbers [B] with −1 for no label, or multi-hot [B, C]; a tensor, an array or a list.
        u: [B, r].
    """
    if not isinstance(y, Tensor):
        try:
            y = torch.as_tensor(y)
        except (TypeError, ValueError, RuntimeError):
            raise DataError(f"Labels must be whole numbers [B] or multi-hot [B, C], not {shown(y)}.") from None
        if y.numel() == 0:
            y = y.long()  # an empty list has no type of its own
    _check_kind(y)
    if len(y) != len(u):
        raise DataError(f"There are {len(y)} labels for {len(u)} rows; each row needs one, −1 for no label.")
    return y.to(u.device)


def label_mask(y: Tensor, num_classes: int) -> Tensor:
    """Y_i as a matrix: bool [B, C], entry (i, s) says whether s ∈ Y_i.

    Args:
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        num_classes: C.

    Raises:
        DataError: ``y`` has another shape or type, or (on the CPU) a label outside −1 … C − 1.
    """
    _check_kind(y)
    if y.ndim == 2:
        if y.shape[1] != num_classes:
            raise DataError(f"Labels have {y.shape[1]} columns but there are {num_classes} centres or classes.")
        return y > 0
    check_range(y, num_classes)
    return y.unsqueeze(1) == torch.arange(num_classes, device=y.device)


def sum_over_labels(values: Tensor, y: Tensor) -> Tensor:
    """Σ_{s∈Y_i} v_is: float [B], 0 for a row without a label.

    With one label per row it is looked up: with 20,000 classes, matrices [B, C] took a quarter of the losses' time.

    Args:
        values: float tensor [B, C].
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
    """
    if y.ndim == 2:
        # `where`, not a product: a value of inf outside the label set times 0 would be NaN.
        return torch.where(label_mask(y, values.shape[1]), values, 0).sum(1)
    check_range(y, values.shape[1])
    own = values.gather(1, y.clamp(0, values.shape[1] - 1).long().unsqueeze(1)).squeeze(1)
    return torch.where((y >= 0) & (y < values.shape[1]), own, 0)


def check_range(y: Tensor, num_classes: int) -> None:
    # Reading the values would make a GPU wait at every step; there only the check of the data source applies.
    if y.device.type == "cpu" and y.numel() and (int(y.max()) >= num_classes or int(y.min()) < NO_LABEL):
        wrong = int(y.max()) if int(y.max()) >= num_classes else int(y.min())
        raise DataError(f"Label {wrong} is out of range; labels must be 0…{num_classes - 1}, or −1 for none.")


def _check_kind(y: Tensor) -> None:
    if y.ndim not in (1, 2) or (y.ndim == 1 and (y.is_floating_point() or y.dtype == torch.bool)):
        raise DataError(
            f"Labels must be whole numbers [B] or multi-hot [B, C], not {y.dtype} of shape {list(y.shape)}."
        )


def has_label(y: Tensor) -> Tensor:
    """bool [B]: which rows have a label. ``y`` may also be the matrix of :func:`label_mask`."""
    return (y > 0).any(1) if y.ndim == 2 else y >= 0


def similar(y_a: Tensor, y_b: Tensor) -> Tensor:
    """s_ij = whether i and j share a label: bool [A, B]. A row without a label is similar to nothing.

    Args:
        y_a, y_b: int64 [A] and [B] with −1 for no label, or multi-hot [A, C] and [B, C].
    """
    if y_a.ndim != y_b.ndim or (y_a.ndim == 2 and y_a.shape[1] != y_b.shape[1]):
        raise DataError(f"Labels of shapes {tuple(y_a.shape)} and {tuple(y_b.shape)} cannot be compared.")
    if y_a.ndim == 2:
        # A product of 0s and 1s: even in half precision a count above 0 stays above 0.
        return (y_a > 0).float() @ (y_b > 0).float().T > 0
    return (y_a.unsqueeze(1) == y_b) & has_label(y_a).unsqueeze(1)


def both_labelled(y_a: Tensor, y_b: Tensor) -> Tensor:
    """bool [A, B]: pairs of two labelled rows, the only ones known to be similar or dissimilar."""
    return has_label(y_a).unsqueeze(1) & has_label(y_b)


def mean_over_labelled(values: Tensor, labelled: Tensor) -> Tensor:
    """The mean of ``values`` where ``labelled`` is true; 0 (with a gradient of 0) where it never is.

    § The paper sums over all items; a batch mean makes the learning rate independent of the batch size, and unlabelled
    rows must not lessen the weight of the supervised part.

    Args:
        values: float tensor [B] of rows, or [A, B] of pairs.
        labelled: bool tensor of the same shape.
    """
    return torch.where(labelled, values, 0).sum() / labelled.sum().clamp(min=1)
