"""Convert label columns of any kind to the two forms of :mod:`scdh.label_arrays`, with the names of the labels.

Values without given names are numbered in sorted order (numbers by size, text by alphabet), so that the numbering does
not depend on the order of the rows. ``what`` is how messages call the column.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scdh.errors import DataError
from scdh.label_arrays import NO_LABEL, multi_hot

Encoded = tuple[np.ndarray, list[str]]  # int64 [n] or uint8 multi-hot [n, C], and C label names


def encode_single(values: Sequence[Any], names: list[str] | None = None, *, what: str = "labels") -> Encoded:
    """One value per row; None, "" and −1 (also as text) mean no label. With ``names``, value i is ``names[i]``."""
    if names is not None:
        return _to_numbers([NO_LABEL if _is_missing(v) else v for v in values], names, what), list(names)
    nested = next((v for v in values if isinstance(v, list | dict | set)), None)
    if nested is not None:
        raise DataError(f"{what} must be whole numbers or names, but hold {nested!r} in the place of one.")
    classes = _sort_values({v for v in values if not _is_missing(v)}, what)
    numbers = {value: i for i, value in enumerate(classes)}
    return np.array([numbers.get(v, NO_LABEL) for v in values], dtype=np.int64), [str(v) for v in classes]


def encode_lists(
    rows: Sequence[Iterable[Any] | None], names: list[str] | None = None, *, what: str = "labels"
) -> Encoded:
    """A list of values per row, None or empty for no label → multi-hot."""
    lists = [[v for v in (row if row is not None else ()) if not _is_missing(v)] for row in rows]
    if names is None and (width := _multi_hot_width(lists)):
        return np.array([row or [0] * width for row in lists], dtype=np.uint8), [str(i) for i in range(width)]
    flat = [v for row in lists for v in row]
    flat_rows = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    if names is None:
        numbers, names = encode_single(flat, what=what)
    else:
        numbers = _to_numbers(flat, names, what, flat_rows)
    hot = np.zeros((len(lists), len(names)), np.uint8)
    hot[flat_rows, numbers] = 1
    return hot, list(names)


def encode_columns(columns: dict[str, Encoded]) -> Encoded:
    """One label from each of several columns → multi-hot.

    Names begin with their column ("coarse=Orange"), because the same value may mean different things in two columns.
    Columns of only 0 and 1 are already multi-hot, one label per column.
    """
    if all(numbers.ndim == 1 and names in (["0", "1"], ["0"], ["1"]) for numbers, names in columns.values()):
        # The appended "0" is what −1, no label, points to.
        flags = [np.array([*names, "0"])[numbers] == "1" for numbers, names in columns.values()]
        return np.stack(flags, axis=1).astype(np.uint8), list(columns)
    parts, all_names = [], []
    for column, (numbers, names) in columns.items():
        parts.append(multi_hot(numbers, len(names)) if numbers.ndim == 1 else numbers)
        all_names += [f"{column}={name}" for name in names]
    return np.concatenate(parts, axis=1), all_names


def encode_array(y: np.ndarray, names: list[str] | None = None, *, what: str = "labels") -> Encoded:
    """A numpy array of integers or text [n], or of 0/1 [n, C]."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2):
        raise DataError(f"{what} must have the shape [n] or [n, C], not {list(y.shape)}.")
    if y.dtype.kind == "f":
        if y.ndim == 1:
            y = np.where(np.isnan(y), NO_LABEL, y)  # a missing label, as pandas has it
        if not (np.isfinite(y).all() and (y == np.floor(y)).all()):
            raise DataError(
                f"{what} must be whole numbers, names or 0/1 rows, but hold fractions or infinity; NaN or -1 means no "
                "label."
            )
        y = y.astype(np.int64)
    if y.dtype.kind not in "iubUS":
        raise DataError(f"{what} must be whole numbers, names or 0/1 rows, not of type {y.dtype}.")
    if y.ndim == 1:
        return encode_single((as_text(y) if y.dtype.kind == "S" else y).tolist(), names, what=what)
    if y.dtype.kind in "US" or not np.isin(y, (0, 1)).all():
        raise DataError(f"{what} with two dimensions must hold only 0 and 1 (one column per label).")
    names = [str(i) for i in range(y.shape[1])] if names is None else list(names)
    if len(names) != y.shape[1]:
        raise DataError(f"{what} have {y.shape[1]} columns but {len(names)} label names were given.")
    return y.astype(np.uint8), names


def as_text(values: np.ndarray) -> np.ndarray:
    """Text of an array of bytes, numbers or text; bytes that are not UTF-8 stay as they are in names of files."""
    return np.char.decode(values, "utf-8", "surrogateescape") if values.dtype.kind == "S" else values.astype(str)


def is_multi_hot(y: np.ndarray | None) -> bool:
    """Whether these are rows of several 0s and 1s."""
    return (
        y is not None and y.ndim == 2 and y.shape[1] > 1 and y.dtype.kind in "biuf" and bool(np.isin(y, (0, 1)).all())
    )


def holds_lists(y: Any) -> bool:
    """Whether these are lists of labels, one for each row (also of different lengths).

    >>> holds_lists([["cat", "small"], []]), holds_lists(["cat", "dog"]), holds_lists(np.eye(2))
    (True, False, False)
    """
    may_hold = hasattr(y, "__iter__") and not (isinstance(y, np.ndarray) and y.dtype.kind != "O")
    return may_hold and any(isinstance(value, list | tuple | set | frozenset) for value in y)


def plain_labels(y: Any) -> np.ndarray:
    """Labels as an array of numbers or of text; None and NaN among Python objects become −1 or "".

    >>> plain_labels(["cat", None]).tolist(), plain_labels(np.array([3, None])).tolist()
    (['cat', ''], [3, -1])
    """
    y = np.asarray(y)
    if y.dtype.kind == "S":
        return as_text(y)
    if y.dtype.kind != "O" or y.ndim != 1:
        return y
    is_missing = np.array([value is None or value != value for value in y.tolist()], bool)
    is_text = all(isinstance(value, str) for value in y[~is_missing])
    return np.array([("" if is_text else NO_LABEL) if miss else v for v, miss in zip(y, is_missing, strict=True)])


def number_classes(y: np.ndarray, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the values of ``y``, int64 [n] with −1 for no label, and the classes that they stand for.

    Args:
        y: numbers, −1 for no label; or text [n], "" or "-1" for no label.
        classes: sorted values; a value that is not among them gets the number ``len(classes)``. None: the sorted
            values of ``y`` itself.

    >>> number_classes(np.array(["dog", "", "cat"]))
    (array([ 1, -1,  0]), array(['cat', 'dog'], dtype='<U3'))
    """
    is_missing = np.isin(y, ("", str(NO_LABEL))) if y.dtype.kind == "U" else y == NO_LABEL
    classes = np.unique(y[~is_missing]) if classes is None else classes
    if len(y) and len(classes) and (y.dtype.kind == "U") != (classes.dtype.kind == "U"):
        raise DataError("Labels must be names, or numbers, as those that were learned from.")
    numbers = np.searchsorted(classes, y).astype(np.int64)
    is_known = np.append(classes, classes[:1])[numbers] == y if len(classes) else np.zeros(len(y), bool)
    numbers[~is_known] = len(classes)
    numbers[is_missing] = NO_LABEL
    return numbers, classes


def labels_like(y: Any, count: int, learned: np.ndarray | None, classes: np.ndarray | None) -> np.ndarray:
    """The labels of new rows, in the form of the training labels.

    Args:
        y: numbers, names, lists of names or 0/1 rows, as a user gave them.
        count: the number of rows.
        learned: int64 [n] or multi-hot [n, C]; None where nothing was learned from labels.
        classes: what the numbers of ``learned`` stand for.
    """
    if y is None or len(y) != count:
        raise DataError(f"There must be a label for each of {count} rows, got {'none' if y is None else len(y)}.")
    if classes is not None and holds_lists(y):
        y = encode_lists(list(y), [str(name) for name in classes])[0]
    y = plain_labels(y)
    if learned is not None and (learned.ndim == 2 or is_multi_hot(y)) and learned.shape[1:] != y.shape[1:]:
        form = f"{learned.shape[1]} columns of 0 and 1" if learned.ndim == 2 else "one label per row"
        raise DataError(f"Labels of shape {list(y.shape)} do not fit those that were learned from, {form}.")
    return y.astype(np.uint8) if is_multi_hot(y) else number_classes(y.reshape(count), classes)[0]


def _sort_values(values: Iterable[Any], what: str) -> list[Any]:
    """Integers by size, then text by alphabet (a column of text may hold both); anything else is rejected."""
    values = list(values)
    other = next((v for v in values if not isinstance(v, str | int)), None)
    if other is not None:
        raise DataError(f"{what} must be whole numbers or names, but hold for example {other!r}.")
    return sorted(v for v in values if not isinstance(v, str)) + sorted(v for v in values if isinstance(v, str))


def _is_missing(value: Any) -> bool:
    return value is None or value in ("", str(NO_LABEL)) or (isinstance(value, int) and value == NO_LABEL)


def _to_numbers(values: Any, names: list[str], what: str, rows: np.ndarray | None = None) -> np.ndarray:
    """Numbers or names → checked numbers, int64; ``rows`` says which row each value is of, for messages."""
    if any(isinstance(v, str) for v in values):
        number_of = {name: i for i, name in enumerate(names)}
        unknown = next((v for v in values if isinstance(v, str) and v not in number_of), None)
        if unknown is not None:
            raise DataError(f"{what} has the label {unknown!r}, which is not among the {len(names)} label names.")
        values = [number_of.get(v, v) for v in values]
    try:
        numbers = np.asarray(values, dtype=np.int64)
        if numbers.ndim != 1:
            raise ValueError("they are lists")
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{what} must be numbers of the {len(names)} label names: {error}.") from error
    outside = np.flatnonzero((numbers < NO_LABEL) | (numbers >= len(names)))
    if len(outside):
        row = outside[0] if rows is None else rows[outside[0]]
        raise DataError(
            f"{what} has the label {numbers[outside[0]]} in row {row}, but only {len(names)} label names: "
            f"expected 0 to {len(names) - 1}, or -1 for none."
        )
    return numbers


def _multi_hot_width(rows: list[list[Any]]) -> int:
    """C if the rows are multi-hot, else 0. Rows of three or more 0s and 1s, all of one length, are: a list of labels
    would not repeat one. Empty rows have no label in either form.
    """
    filled = [row for row in rows if row]
    width = len(filled[0]) if filled else 0
    are_flags = width >= 3 and all(len(row) == width and all(v in (0, 1) for v in row) for row in filled)
    return width if are_flags else 0
