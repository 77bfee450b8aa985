"""How many rows of each class are held out as queries and for validation, and which ones.

A number given by the user is taken exactly (:func:`scdh.data.draw.take_per_class`). Otherwise the number depends on the
data: a share of each class, so that large classes are tested and small ones are not used up.
"""

from dataclasses import dataclass

import numpy as np

from scdh.data.draw import take_per_class

QUERY_SHARE = 5  # one row in 5
QUERY_MOST_OF_CLASS = 100  # as in the papers; more per class hardly change its mean
QUERY_MOST = 5_000  # their mean is accurate to half a per cent; more only take time
QUERY_LEAST_ROWS = 2  # per class: a query needs another row of its class to find
VALIDATION_SHARE = 10  # one in 10 of the rows left
VALIDATION_MOST_OF_CLASS = 50
VALIDATION_MOST = 2_000  # every epoch encodes them and ranks them among themselves
VALIDATION_LEAST_ROWS = 8  # per class: with fewer rows, each is worth more in training
VALIDATION_LEAST_OF_CLASS = 2  # per class: they are ranked among themselves, so a single row finds nothing
VALIDATION_LEAST = 20  # with fewer, the best epoch is chance
VALIDATION_LEAST_CLASSES = 2  # with one class every ranking is perfect


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Row numbers, with notes for the user."""

    query: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    notes: tuple[str, ...] = ()


def hold_out(
    labels: np.ndarray,
    order: np.ndarray,
    *,
    query_per_class: int | None,
    validation_per_class: int | None,
    train_per_class: int | None = None,
    label_names: list[str] | None = None,
) -> HeldOut:
    """Divide labelled rows into queries, training and validation rows.

    Args:
        labels: int64 [n] or uint8 multi-hot [n, C] of the whole source.
        order: int64, the labelled rows to divide, in random order: nothing else is random here.
        query_per_class: queries of each class; 0: none; None: what fits.
        validation_per_class: rows of each class taken out of the training rows; 0: none; None: what fits.
        train_per_class: training rows of each class (validation rows among them); None: all but the queries.
        label_names: list of C str for messages, and so that a class without rows is rejected if a number is given.
    """
    notes = []
    if query_per_class is None:
        query = fitting_queries(labels, order)
        if not len(query):
            notes.append("no class has two labelled rows, so there are no queries to evaluate with")
    else:
        query = take_per_class(labels, order, query_per_class, "query", label_names)
    train = order[~np.isin(order, query)]
    if train_per_class is not None:
        train = take_per_class(labels, train, train_per_class, "training", label_names)
    if validation_per_class is None:
        # In the order given also where ``train_per_class`` has sorted the rows.
        validation = fitting_validation(labels, order[np.isin(order, train)])
        if not len(validation):
            notes.append(_why_no_validation(labels, train))
    else:
        validation = take_per_class(labels, train, validation_per_class, "validation", label_names)
    return HeldOut(np.sort(query), np.sort(train[~np.isin(train, validation)]), np.sort(validation), tuple(notes))


def _why_no_validation(labels: np.ndarray, train: np.ndarray) -> str:
    if len(np.unique(_one_class_per_row(labels, train))) == 1:
        return "no validation, as there is only one class"
    return (
        f"no validation, as fewer than {VALIDATION_LEAST} rows can be held out (of classes with at least "
        f"{VALIDATION_LEAST_ROWS} training rows)"
    )


def fitting_queries(labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """int64, the rows of ``order`` that are held out as queries if no number is given."""
    classes = _one_class_per_row(labels, order)
    sizes = np.bincount(classes)
    counts = _share(sizes, QUERY_SHARE).clip(1, QUERY_MOST_OF_CLASS)
    counts[sizes < QUERY_LEAST_ROWS] = 0
    rows = order[_first_of_each_class(classes, counts, QUERY_MOST, together=1)]
    return _give_back(labels, order, rows)


def fitting_validation(labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """int64, the rows of ``order`` (the training rows) that are held out for validation if no number is given."""
    classes = _one_class_per_row(labels, order)
    sizes = np.bincount(classes)
    counts = _share(sizes, VALIDATION_SHARE).clip(VALIDATION_LEAST_OF_CLASS, VALIDATION_MOST_OF_CLASS)
    counts[sizes < VALIDATION_LEAST_ROWS] = 0
    positions = _first_of_each_class(classes, counts, VALIDATION_MOST, together=VALIDATION_LEAST_OF_CLASS)
    rows = _give_back(labels, order, order[positions])
    if len(rows) < VALIDATION_LEAST or len(np.unique(classes[positions])) < VALIDATION_LEAST_CLASSES:
        return order[:0]
    return rows


def _share(sizes: np.ndarray, one_in: int) -> np.ndarray:
    return (2 * sizes + one_in) // (2 * one_in)  # rounded, a half upward


def _one_class_per_row(labels: np.ndarray, order: np.ndarray) -> np.ndarray:
    """int64 [len(order)]: the label, or of several labels the rarest, so that each row counts once."""
    if labels.ndim == 1:
        return labels[order].astype(np.int64)
    if not len(order):
        return np.empty(0, np.int64)
    hot = labels[order].astype(bool)
    return np.where(hot, hot.sum(axis=0), len(order) + 1).argmin(axis=1)


def _first_of_each_class(classes: np.ndarray, counts: np.ndarray, most: int, *, together: int) -> np.ndarray:
    """Positions of the first ``counts[c]`` rows of every class c; above ``most`` evenly fewer of each.

    Args:
        classes: int64 [m], the class of each row, rows in random order.
        counts: int64 [C].
        most: of all classes together; classes that come early in the order are served first in every round.
        together: rows that a class gets in one round.
    """
    if not len(classes):
        return np.empty(0, np.int64)
    by_class = np.argsort(classes, kind="stable")
    sizes = np.bincount(classes)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(classes), np.int64)  # how many rows of the same class come before
    rank[by_class] = np.arange(len(classes)) - np.repeat(starts, sizes)
    first = np.full(len(sizes), len(classes))
    np.minimum.at(first, classes, np.arange(len(classes)))
    positions = np.flatnonzero(rank < counts[classes])
    in_rounds = np.lexsort((rank[positions], first[classes[positions]], rank[positions] // together))
    return np.sort(positions[in_rounds[:most]])


def _give_back(labels: np.ndarray, order: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """``held_out`` without the rows that some label needs in training: each label keeps one row or more there.

    With one label per row the counts see to that already; with several, the rows of a label may be held out for others.
    """
    if labels.ndim == 1:
        return held_out
    kept = set(held_out.tolist())
    left = labels[order[~np.isin(order, held_out)]].any(axis=0)
    for label in np.flatnonzero(labels[held_out].any(axis=0) & ~left):
        if left[label]:
            continue  # a row that was given back for another label has this one too
        row = next(row for row in held_out if labels[row, label])
        kept.discard(int(row))
        left |= labels[row].astype(bool)
    return held_out[[row in kept for row in held_out.tolist()]]
