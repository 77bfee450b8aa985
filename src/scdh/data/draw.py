"""Drawing a number of rows from each class, and a balanced random order of rows."""

import numpy as np

from scdh.errors import DataError
from scdh.label_arrays import is_labelled, rows_per_class


def seeded(seed: int, *stream: int) -> np.random.Generator:
    """The random generator of a seed, 0 or more; each ``stream`` of a seed is independent of the others."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"The seed must be a whole number, 0 or more, not {seed!r}.")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


def take_per_class(
    labels: np.ndarray,
    order: np.ndarray,
    count: int,
    part: str,
    label_names: list[str] | None = None,
    *,
    at_most: bool = False,
) -> np.ndarray:
    """The first ``count`` rows of every class in ``order``. A smaller ``count`` gives a subset of a larger one's rows.

    Papers also write "100 per class" for rows with several labels, and do not define it. Here such a row counts for one
    of its labels only: the rarest one that still needs rows. So there are exactly ``count`` × C rows, as in the
    published sizes, and rare labels are filled before common ones use up their rows.

    Args:
        labels: int64 [n] or uint8 multi-hot [n, C].
        order: int64, row numbers in the order in which they are considered.
        count: rows of each class.
        part: name of the part, for messages.
        label_names: list of C str for messages, and so that a class without rows is rejected.
        at_most: take all rows of a class that has fewer than ``count``; otherwise that is an error.

    Returns:
        int64, sorted row numbers.
    """
    if count < 0:
        raise DataError(f"The number of {part} rows per class must be 0 or more, not {count}.")
    if count == 0:
        return np.empty(0, np.int64)
    if labels.ndim == 2:
        return _take_per_label(labels, order, count, part, label_names, at_most)
    ordered_labels = labels[order]
    num_classes = len(label_names) if label_names is not None else int(labels.max(initial=-1)) + 1
    if not num_classes:
        raise DataError(f"No row has a label, so no {part} rows can be drawn.")
    chosen_rows = []
    for number in range(num_classes):
        rows = order[ordered_labels == number]
        if len(rows) < count and not at_most:
            raise DataError(_too_few_rows(number, label_names, len(rows), count, part))
        chosen_rows.append(rows[:count])
    return np.sort(np.concatenate(chosen_rows)).astype(np.int64)


def _take_per_label(
    labels: np.ndarray, order: np.ndarray, count: int, part: str, label_names: list[str] | None, at_most: bool
) -> np.ndarray:
    """:func:`take_per_class` for multi-hot labels."""
    num_classes = labels.shape[1]
    if not num_classes:
        raise DataError(f"No row has a label, so no {part} rows can be drawn.")
    rarest_first = np.argsort(rows_per_class(labels[order], num_classes), kind="stable")
    has_label_by_rarity = labels[:, rarest_first].astype(bool)
    missing = np.full(num_classes, count)  # rows that each label still needs, the rarest label first
    unfilled = missing > 0
    chosen_rows = []
    for row in order:
        candidates = has_label_by_rarity[row] & unfilled
        rarest = int(candidates.argmax())
        if not candidates[rarest]:
            continue
        chosen_rows.append(row)
        missing[rarest] -= 1
        unfilled[rarest] = missing[rarest] > 0
        if not unfilled.any():
            break
    if unfilled.any() and not at_most:
        short = int(unfilled.argmax())
        drawn = count - int(missing[short])
        raise DataError(_too_few_rows(int(rarest_first[short]), label_names, drawn, count, part))
    return np.sort(np.array(chosen_rows, dtype=np.int64))


def balanced_order(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """n positions in random order, drawn so that classes come equally often ("balance by sampling").

    One label per row: every class comes equally often (±1); small classes repeat rows, some rows of large classes
    are left out. Several labels: a row is drawn in proportion to the mean of 1/frequency of its labels, by evenly
    spaced draws, so that no row's share is off by more than one. Unlabelled rows come once each.

    Returns:
        int64 [n], positions 0 … n − 1, some repeated.
    """
    labelled = is_labelled(labels)
    labelled_rows = np.flatnonzero(labelled)
    picks = [np.flatnonzero(~labelled)]
    if len(labelled_rows) and labels.ndim == 1:
        classes = rng.permutation(np.unique(labels[labelled_rows]))
        share, remainder = divmod(len(labelled_rows), len(classes))
        for i, number in enumerate(classes):
            rows = np.flatnonzero(labels == number)
            count = share + (i < remainder)
            passes = [rng.permutation(rows) for _ in range(-(-count // len(rows)))]
            picks.append(np.concatenate(passes)[:count] if passes else rows[:0])
    elif len(labelled_rows):
        hot = labels[labelled_rows].astype(np.float64)
        weights = (hot / np.maximum(hot.sum(axis=0), 1)).sum(axis=1) / hot.sum(axis=1)
        upper_ends = np.cumsum(weights) / weights.sum()
        draws = (np.arange(len(labelled_rows)) + rng.random()) / len(labelled_rows)
        positions = np.searchsorted(upper_ends, draws, side="right")
        picks.append(labelled_rows[np.minimum(positions, len(labelled_rows) - 1)])
    return rng.permutation(np.concatenate(picks))


def _too_few_rows(number: int, label_names: list[str] | None, available: int, count: int, part: str) -> str:
    name = repr(label_names[number]) if label_names is not None else str(number)
    setting = {"training": "train"}.get(part, part) + "_per_class"
    return (
        f"Class {name} has only {available} rows left for the {part} part, but {count} per class are required; "
        f"lower {setting}."
    )
