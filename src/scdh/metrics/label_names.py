"""Convert labels given as names (one per item, or a list) to the numbers that scores are computed from.

None, "", NaN and −1 mean no label, also as text: numpy turns the −1 of ``np.array(["cat", -1])`` into "-1".
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.errors import DataError
from scdh.label_arrays import NO_LABEL
from scdh.metrics.relevance import check_labels

MISSING = ("", str(NO_LABEL))
Names = list[str | None] | list[list[str]]  # per item: one name or None, or a list of names


def check_both_labels(
    query_labels: ArrayLike, query_count: int | None, database_labels: ArrayLike, database_count: int | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels of queries and database as ``check_labels`` gives them; the same name has the same number in both.

    >>> query, database = check_both_labels(["dog", None], 2, ["cat", "dog"], 2)
    >>> query.tolist(), database.tolist()
    ([1, -1], [0, 1])
    """
    names = read_names(query_labels, "query_labels"), read_names(database_labels, "database_labels")
    query_names, database_names = names
    if query_names is None and database_names is None:
        return (
            check_labels(query_labels, query_count, "query_labels"),
            check_labels(database_labels, database_count, "database_labels"),
        )
    if query_names is None or database_names is None:
        kinds = ("numbers", "names") if query_names is None else ("names", "numbers")
        raise DataError(
            f"Labels must be names for both or numbers for both, got {kinds[0]} for the queries and {kinds[1]} for the "
            "database."
        )
    for what, values, count in (
        ("query_labels", query_names, query_count),
        ("database_labels", database_names, database_count),
    ):
        if count is not None and len(values) != count:
            raise DataError(f"{what} must be one per item: there are {len(values)} for {count} items.")
    is_multi = any(isinstance(row, list) for values in (query_names, database_names) for row in values)
    known = sorted({name for values in (query_names, database_names) for row in values for name in _as_list(row)})
    number_of = {name: number for number, name in enumerate(known)}
    encode = _multi_hot if is_multi else _numbers
    return encode(query_names, number_of), encode(database_names, number_of)


def read_names(labels: ArrayLike, what: str) -> Names | None:
    """The names of each item; None where the labels are not names, but numbers or something else."""
    values: Any = labels
    if not isinstance(labels, list | tuple):
        try:
            array = np.asarray(labels)
        except (ValueError, TypeError, RuntimeError):
            return None
        if array.dtype.kind not in "USO" or array.ndim not in (1, 2):
            return None
        values = array.tolist()
    rows = [row.tolist() if isinstance(row, np.ndarray | np.generic) else row for row in values]
    if any(isinstance(row, list | tuple | set | frozenset) for row in rows):
        if not any(isinstance(value, str | bytes) for row in rows for value in _as_list(row)):
            return None  # rows of numbers: multi-hot
        return [_names_of(_as_list(row), what) for row in rows]
    if not any(isinstance(row, str | bytes) or row is None for row in rows):
        return None
    found = [_names_of([row], what) for row in rows]
    return [row[0] if row else None for row in found]


def _names_of(values: Iterable[Any], what: str) -> list[str]:
    """The names among the values, without those that mean no label."""
    names = []
    for value in values:
        name = value.decode() if isinstance(value, bytes) else value
        if isinstance(name, str):
            if name not in MISSING:
                names.append(name)
        elif not _is_missing(name):
            raise DataError(f"{what} must be all names or all numbers, but hold names and {name!r}.")
    return names


def _is_missing(value: Any) -> bool:
    # NaN is how pandas writes an empty cell; its own pd.NA cannot even be compared.
    return value is None or type(value).__name__ == "NAType" or value != value or value == NO_LABEL


def _as_list(row: Any) -> Iterable[Any]:
    return row if isinstance(row, list | tuple | set | frozenset) else [] if row is None else [row]


def _numbers(rows: Names, number_of: dict[str, int]) -> NDArray[Any]:
    return np.array([NO_LABEL if row is None else number_of[str(row)] for row in rows], np.int64)


def _multi_hot(rows: Names, number_of: dict[str, int]) -> NDArray[Any]:
    hot = np.zeros((len(rows), max(1, len(number_of))), np.bool_)
    for position, row in enumerate(rows):
        hot[position, [number_of[name] for name in _as_list(row)]] = True
    return hot
