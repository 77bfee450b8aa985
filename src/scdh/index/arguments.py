"""Checks of the arguments of index methods: ids and integers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes.arguments import check_ids
from scdh.errors import CodesError, ExistingIdError, NoFreeIdError, RepeatedIdError, UnknownIdError


def id_row(ids: ArrayLike) -> NDArray[np.int64]:
    """Return ids as int64 [n]; a single id gives n = 1."""
    return check_ids(np.atleast_1d(np.asarray(ids)), np.size(ids))


def whole_number(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise CodesError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return int(value)


def ids_after(largest: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` consecutive ids after ``largest``.

    Raises:
        NoFreeIdError: if they do not fit into int64.
    """
    if largest + count > np.iinfo(np.int64).max:
        raise NoFreeIdError("There are no free ids after the largest one present; give ids for the new codes.")
    return np.arange(largest + 1, largest + 1 + count, dtype=np.int64)


def check_distinct(ids: NDArray[np.int64]) -> None:
    """Raise ``RepeatedIdError`` if an id occurs more than once."""
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        raise RepeatedIdError(f"Ids must be distinct, but the id {repeated[0]} occurs more than once.", repeated)


def check_all_new(ids: NDArray[np.int64], known: NDArray[np.bool_]) -> None:
    """Raise ``ExistingIdError`` if one of the ``ids`` [m] to add is ``known`` [m]."""
    if known.any():
        present = ids[known]
        count = f"{present.size} of the {ids.size} ids to add already exist"
        raise ExistingIdError(f"The index already contains the id {present[0]} ({count}).", present)


def check_all_known(ids: NDArray[np.int64], known: NDArray[np.bool_]) -> None:
    """Raise ``UnknownIdError`` unless all ``ids`` [m] to remove are ``known`` [m]."""
    if not known.all():
        unknown = ids[~known]
        count = f"{unknown.size} of the {ids.size} ids to remove do not exist"
        raise UnknownIdError(f"The index does not contain the id {unknown[0]} ({count}).", unknown)
