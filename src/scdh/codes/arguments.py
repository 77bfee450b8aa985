"""Checks of the arguments from which codes are made: arrays of bits, ids, row selections, metadata."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes.advice import advice, describe, is_bits, to_array
from scdh.errors import CodesError
from scdh.storage.tensor_files import CHECKSUMS, RESERVED


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
        values = to_array(array)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CodesError(
            f"Codes are made from an array of shape [n, bits], not from {describe(array)}{advice(array)}."
        ) from error
    if values.ndim != 2 or values.shape[1] == 0:
        raise CodesError(
            f"Codes need an array of shape [n, bits] with at least 1 bit, got {describe(array)}{advice(array)}."
        )
    return values


def check_signs(values: NDArray[Any]) -> None:
    """Reject values [n, bits] that have no sign."""
    if values.dtype.kind not in "fi" or is_bits(values):
        kind = "0/1 values" if is_bits(values) else f"values of type {values.dtype}"
        what = "have no sign" if values.dtype.kind in "fiu" else "are not real numbers"
        raise CodesError(f"The {kind} {what}{advice(values)}.")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise CodesError(f"Codes need finite values, but row {row}, column {column} holds {values[row, column]}.")


def check_bits(values: NDArray[Any]) -> None:
    """Reject values [n, bits] that are not all 0 or 1."""
    if values.dtype.kind in "biuf":
        wrong = (values != 0) & (values != 1)
        if not wrong.any():
            return
        row, column = np.argwhere(wrong)[0]
        shown = f"row {row}, column {column} holds {values[row, column]}"
    else:
        shown = f"these are values of type {values.dtype}"
    raise CodesError(f"Bits must be 0 or 1, but {shown}{advice(values)}.")


def packed_array(packed: ArrayLike, bits: int) -> NDArray[np.uint8]:
    """Packed rows, uint8 [n, ceil(bits / 8)]; anything else raises an error that names the right call."""
    width = -(-bits // 8)
    try:
        rows = np.asarray(packed)
    except (ValueError, TypeError, RuntimeError):
        rows = np.empty(0, object)
    if rows.dtype == np.uint8 and rows.ndim == 2 and rows.shape[1] == width:
        return rows
    expected = f"Packed codes of {bits} bits must be a uint8 array of shape [n, {width}], got {describe(packed)}"
    if rows.dtype == np.uint8 and rows.shape == (width,):
        raise CodesError(f"{expected}; Codes(array[None], bits={bits}) takes a single row.")
    raise CodesError(f"{expected}{advice(packed)}.")


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
    """A read-only view of the same memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """A copy of the metadata, whose keys and values must be text."""
    checked = dict(metadata or {})
    for key, value in checked.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise CodesError(f"Metadata keys and values must be text, got {key!r}: {value!r}.")
        if key in (*RESERVED, CHECKSUMS):
            raise CodesError(f"The metadata key {key!r} is reserved for the file format; choose another name.")
    return checked
