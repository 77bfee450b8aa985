"""The two forms of a label array, and the rule for "has no label". For tensors see scdh.losses.label_masks.

One label per row: int64 [n], −1 for no label. Several: 0/1 multi-hot [n, C], a row of zeros for no label.
"""

import numpy as np

NO_LABEL = -1


def is_labelled(labels: np.ndarray) -> np.ndarray:
    """bool [n]: which rows have a label.

    >>> is_labelled(np.array([2, -1])).tolist(), is_labelled(np.array([[0, 1], [0, 0]])).tolist()
    ([True, False], [True, False])
    """
    return np.asarray(labels.any(axis=1) if labels.ndim == 2 else labels >= 0)


def rows_per_class(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """int64 [C]: how many rows have each label.

    >>> rows_per_class(np.array([2, 2, -1]), 3).tolist()
    [0, 0, 2]
    """
    if labels.ndim == 2:
        return labels.sum(axis=0, dtype=np.int64)
    return np.bincount(labels[is_labelled(labels)], minlength=num_classes)


def no_labels(count: int) -> np.ndarray:
    """int64 [count]: labels of rows that have none."""
    return np.full(count, NO_LABEL, np.int64)


def hide_labels(labels: np.ndarray, hidden: np.ndarray) -> None:
    """Remove the labels of the rows for which ``hidden``, bool [n], is true; ``labels`` is changed in place."""
    labels[hidden] = 0 if labels.ndim == 2 else NO_LABEL


def multi_hot(numbers: np.ndarray, num_classes: int) -> np.ndarray:
    """int64 [n] → uint8 [n, C].

    >>> multi_hot(np.array([1, -1]), 2).tolist()
    [[0, 1], [0, 0]]
    """
    hot = np.zeros((len(numbers), num_classes), np.uint8)
    rows = np.flatnonzero(is_labelled(numbers))
    hot[rows, numbers[rows]] = 1
    return hot


def renumbered(labels: np.ndarray, new_numbers: np.ndarray, num_classes: int) -> np.ndarray:
    """Labels with class i renumbered to ``new_numbers[i]`` of ``num_classes``."""
    if labels.ndim == 1:
        return np.append(new_numbers, NO_LABEL)[labels]
    hot = np.zeros((len(labels), num_classes), np.uint8)
    hot[:, new_numbers] = labels
    return hot


def with_classes(labels: np.ndarray, stays: np.ndarray) -> np.ndarray:
    """Labels without the classes for which ``stays``, bool [C], is false; the others keep their order.

    >>> with_classes(np.array([2, 1, -1]), np.array([True, False, True])).tolist()
    [1, -1, -1]
    """
    if labels.ndim == 2:
        return labels[:, stays]
    return renumbered(labels, np.where(stays, np.cumsum(stays) - 1, NO_LABEL), int(stays.sum()))


def count_label_sets(labels: np.ndarray) -> int:
    """The number of distinct label sets; rows without a label do not count.

    >>> count_label_sets(np.array([[1, 0], [1, 1], [1, 0], [0, 0]])), count_label_sets(np.array([2, 2, -1]))
    (2, 1)
    """
    labels = labels[is_labelled(labels)]
    return len(np.unique(np.packbits(labels.astype(bool), axis=1) if labels.ndim == 2 else labels, axis=0))
