"""What callers give to make codes, checked: arrays of bits, ids, chosen rows, metadata."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.errors import CodesError
from scdh.tensor_files import RESERVED


def check_ids(ids: ArrayLike, count: int) -> NDArray[np.int64]:
    """Ids as int64 [count]; they may come in any order."""
    array = np.asarray(ids)
    if array.ndim != 1 or len(array) != count:
        raise CodesError(f"There must be one id per code, so {count} in one row, got shape {list(array.shape)}.")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise CodesError(f"Ids must be whole numbers, got values of type {array.dtype}.")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise CodesError(f"Ids must fit into 64 bits with a sign, got {array.max()}.")
    return array.astype(np.int64)


def two_dimensional(array: ArrayLike) -> NDArray[Any]:
    """The values as an array [n, bits]."""
    try:
        values = np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CodesError(f"Codes are made from an array of shape [n, bits], but this is none: {error}.") from error
    if values.ndim != 2 or values.shape[1] == 0:
        raise CodesError(f"Codes need an array of shape [n, bits] with at least 1 bit, got shape {list(values.shape)}.")
    return values


def row_choice(rows: Any, count: int) -> NDArray[Any]:
    """Row numbers int64, or a mask of ``count`` booleans."""
    choice = np.asarray(rows)
    if choice.ndim != 1 or (choice.size and choice.dtype.kind not in "biu"):
        raise CodesError(
            f"Rows are chosen by a slice, whole numbers or a mask, got {choice.dtype} of shape {list(choice.shape)}."
        )
    if choice.dtype == np.bool_:
        if len(choice) != count:
            raise CodesError(f"A mask over {count} codes needs {count} values, got {len(choice)}.")
        return choice
    return choice.astype(np.int64)


def read_only_view(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, which cannot be written to through this array."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of the metadata, whose keys and values must be text."""
    checked = dict(metadata or {})
    for key, value in checked.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise CodesError(f"Metadata keys and values must be text, got {key!r}: {value!r}.")
        if key in RESERVED:
            raise CodesError(f"The metadata key {key!r} is reserved for the file format; choose another name.")
    return checked
