"""Columns of labels as people keep them → the two forms that the rest of the program knows.

One label a row: int64 [n], −1 for none. Several: uint8 multi-hot [n, C], a row of zeros for none. Values
without given names are numbered in sorted order (numbers by size, words by alphabet), so the numbering does
not depend on the order of the rows.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scdh.errors import DataError
from scdh.label_arrays import NO_LABEL, multi_hot

Encoded = tuple[np.ndarray, list[str]]


def encode_single(values: Sequence[Any], names: list[str] | None = None, *, what: str = "labels") -> Encoded:
    """One value a row: None, "" and −1 mean "no label"; ``names`` are what numbers stand for."""
    if names is not None:
        return _checked([NO_LABEL if _missing(v) else v for v in values], names, what), list(names)
    present = {v for v in values if not _missing(v)}
    order = sort_values(present, what)
    place = {value: i for i, value in enumerate(order)}
    return np.array([place.get(v, NO_LABEL) for v in values], dtype=np.int64), [str(v) for v in order]


def encode_lists(
    rows: Sequence[Iterable[Any] | None], names: list[str] | None = None, *, what: str = "labels"
) -> Encoded:
    """A list of values a row (None or empty: no label) → multi-hot."""
    lists = [[v for v in (row if row is not None else ()) if not _missing(v)] for row in rows]
    if names is None and (width := _multi_hot_width(lists)):
        return np.array([row or [0] * width for row in lists], dtype=np.uint8), [str(i) for i in range(width)]
    flat = [v for row in lists for v in row]
    where = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    if names is None:
        numbers, names = encode_single(flat, what=what)
    else:
        numbers = _checked(flat, names, what, where)
    hot = np.zeros((len(lists), len(names)), np.uint8)
    hot[where, numbers] = 1
    return hot, list(names)


def encode_columns(columns: dict[str, Encoded]) -> Encoded:
    """One label from each of several columns → multi-hot. Names get their column in front ("coarse=Orange"),
    because the same word may stand in two columns and mean two things. Columns of nothing but 0 and 1 are
    taken as the multi-hot form itself, one label a column.
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
    """A numpy array: whole numbers or words [n], or 0/1 [n, C]."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2):
        raise DataError(f"{what} must have the shape [n] or [n, C], not {list(y.shape)}.")
    if y.dtype.kind == "f":
        if not (np.isfinite(y).all() and (y == np.floor(y)).all()):
            raise DataError(f"{what} must be whole numbers, words or 0/1 rows, but hold fractions or NaN.")
        y = y.astype(np.int64)
    if y.dtype.kind not in "iubUS":
        raise DataError(f"{what} must be whole numbers, words or 0/1 rows, not of type {y.dtype}.")
    if y.ndim == 1:
        return encode_single((y.astype(str) if y.dtype.kind == "S" else y).tolist(), names, what=what)
    if y.dtype.kind in "US" or not np.isin(y, (0, 1)).all():
        raise DataError(f"{what} with two dimensions must hold only 0 and 1 (one column a label).")
    names = [str(i) for i in range(y.shape[1])] if names is None else list(names)
    if len(names) != y.shape[1]:
        raise DataError(f"{what} have {y.shape[1]} columns but {len(names)} label names were given.")
    return y.astype(np.uint8), names


def sort_values(values: Iterable[Any], what: str) -> list[Any]:
    """Numbers by size, words by alphabet; anything else is refused."""
    values = list(values)
    for kind in (str, int):
        if all(isinstance(v, kind) for v in values):
            return sorted(values)
    odd = next((v for v in values if not isinstance(v, str | int)), None)
    found = f"for example {odd!r}" if odd is not None else "a mixture of the two"
    raise DataError(f"{what} must be whole numbers or words, but hold {found}.")


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, int) and value == NO_LABEL)


def _checked(values: Any, names: list[str], what: str, where: np.ndarray | None = None) -> np.ndarray:
    if any(isinstance(v, str) for v in values):
        place = {name: i for i, name in enumerate(names)}
        stranger = next((v for v in values if isinstance(v, str) and v not in place), None)
        if stranger is not None:
            raise DataError(f"{what} has the label {stranger!r}, which is not among the {len(names)} label names.")
        values = [place.get(v, v) for v in values]
    try:
        numbers = np.asarray(values, dtype=np.int64).reshape(-1)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{what} must be numbers of the {len(names)} label names: {error}.") from error
    outside = np.flatnonzero((numbers < NO_LABEL) | (numbers >= len(names)))
    if len(outside):
        row = outside[0] if where is None else where[outside[0]]
        raise DataError(
            f"{what} has the label {numbers[outside[0]]} in row {row}, but only {len(names)} label names: "
            f"expected 0 to {len(names) - 1}, or -1 for none."
        )
    return numbers


def _multi_hot_width(rows: list[list[Any]]) -> int:
    """Equal rows of at least three 0s and 1s: a list of labels would not repeat one, so these are flags (else 0).
    Empty rows are rows without label in either form.
    """
    filled = [row for row in rows if row]
    width = len(filled[0]) if filled else 0
    flags = width >= 3 and all(len(row) == width and all(v in (0, 1) for v in row) for row in filled)
    return width if flags else 0
