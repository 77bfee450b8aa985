"""For error messages: a description of a value given instead of codes, and the call that makes codes from it."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_array(value: Any) -> NDArray[Any]:
    """The values as an array; torch tensors may be on another device, have a gradient or be bfloat16.

    Raises:
        ValueError, TypeError: if they cannot be converted to an array.
    """
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        value = value.detach().cpu()
        if value.is_floating_point() and value.dtype.itemsize < 4:  # numpy has no bfloat16
            value = value.float()
    return np.asarray(value)


def describe(value: Any) -> str:
    """The given value in a few words: ``a float64 array of shape [5, 32]``."""
    if isinstance(value, np.ndarray):
        return f"{_a(value.dtype.name)} array of shape {list(value.shape)}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"a {type(value).__name__} of {value.dtype} of shape {list(value.shape)}"
    return f"{value!r}" if value is None or isinstance(value, str) else _a(type(value).__name__)


def advice(value: Any) -> str:
    """The end of a sentence about a given value: the call that makes codes from it; empty if there is none."""
    call = _call_for(value)
    return f"; {call}" if call else ""


def _call_for(value: Any) -> str:
    if isinstance(value, str | os.PathLike):
        return "Codes.load(path) reads a file of codes"
    if isinstance(value, list | tuple) and value and all(hasattr(part, "packed") for part in value):
        return "Codes.concatenate(parts) joins several"
    try:
        values = to_array(value)
    except (ValueError, TypeError, RuntimeError):
        return ""
    if values.ndim not in (1, 2) or values.shape[-1] == 0 or values.dtype.kind not in "biuf":
        return ""
    row = "array[None]" if hasattr(value, "shape") else "[array]"  # of a single code
    name = "array" if values.ndim == 2 else row
    if values.dtype == np.bool_ or is_bits(values):
        return f"Codes.from_bits({name}) takes 0/1 values [n, bits]"
    if values.dtype.kind == "u":
        packed = name if values.dtype == np.uint8 else f"{name}.view('uint8')"
        return f"Codes({packed}, bits={8 * values.dtype.itemsize * values.shape[-1]}) takes packed bytes"
    return f"Codes.from_signs({name}) takes real numbers [n, bits]" if np.isfinite(values).all() else ""


def is_bits(values: NDArray[Any]) -> bool:
    """Whether all numbers are 0 or 1, and both occur."""
    if values.size == 0 or values.dtype.kind not in "iuf" or values.min() != 0 or values.max() != 1:
        return False
    return bool(((values == 0) | (values == 1)).all())


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeio" else f"a {noun}"
