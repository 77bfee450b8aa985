"""The header of a safetensors file, checked against the file before anything is allocated. Needs no torch.

A safetensors file is 8 bytes with the length of the header, the header as JSON, and the tensors' bytes. Codes, names
and models are all opened through :func:`read_header`.
"""

import os
from dataclasses import dataclass
from io import FileIO
from math import prod
from typing import Any, BinaryIO

import numpy as np

from scdh.json_files import parse_json

# Of a header or a description, so that reading one that was made to be large takes little memory: a million label
# names fit, and what Python makes of the text stays below 200 MB.
LONGEST_TEXT, MOST_VALUES = 1 << 25, 1 << 21
NUMPY_TYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
ITEM_BYTES = {"BF16": 2, **{name: dtype.itemsize for name, dtype in NUMPY_TYPES.items()}}  # numpy has no BF16


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is in its file: bytes ``start`` to ``end``."""

    dtype: str  # as safetensors names it, such as "F32"
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class TensorHeader:
    """What a file says about itself and its tensors; together the tensors fill the file exactly."""

    metadata: dict[str, str]
    tensors: dict[str, StoredTensor]


def read_header(handle: BinaryIO | FileIO) -> TensorHeader:
    """The header of an open safetensors file.

    Raises:
        ValueError: with a short reason, if it is damaged, cut short, or made to take more memory than the file.
    """
    size = os.fstat(handle.fileno()).st_size
    handle.seek(0)
    start = handle.read(9)
    length = int.from_bytes(start[:8], "little")
    if size >= 8 and (not 2 <= length <= LONGEST_TEXT or start[8:] not in (b"", b"{")):
        raise ValueError("it does not begin with a safetensors header")
    if size < 8 or size < 8 + length:
        expected = 8 + length if size >= 8 else 9
        raise ValueError(f"it is cut short, as at least {expected} bytes were expected, but {size} were found")
    text = start[8:] + handle.read(length - 1)
    if len(text) != length:
        raise ValueError("it became shorter while it was read")
    try:
        content = parse_limited(text)
    except ValueError as error:
        raise ValueError(f"its header cannot be understood, as {error}") from None
    metadata = content.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its header cannot be understood, as its metadata are no texts")
    tensors = {name: _stored_tensor(name, entry, 8 + length) for name, entry in content.items()}
    end = 8 + length
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if tensor.start != end:
            raise ValueError(f"tensor {short(name)} does not begin where the one before it ends")
        end = tensor.end
    if end != size:
        state = "cut short" if size < end else "too long"
        raise ValueError(f"it is {state}, as its header promises {end} bytes, but {size} were found")
    return TensorHeader(metadata, tensors)


def read_bytes(handle: BinaryIO | FileIO, tensor: StoredTensor, into: memoryview) -> None:
    """Read one tensor into memory that was allocated for it."""
    handle.seek(tensor.start)
    done = 0
    while done < len(into):
        count = handle.readinto(into[done:])  # type: ignore[union-attr]
        if not count:
            raise ValueError("it became shorter while it was read")
        done += count


def parse_limited(data: bytes) -> Any:
    """As :func:`parse_json`, for a text of a stranger: one with more values than any model has is refused unread."""
    if len(data) > LONGEST_TEXT or data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_VALUES:
        raise ValueError(f"a text of {len(data):,} bytes is larger than any that scdh reads")
    return parse_json(data)


def short(text: object) -> str:
    """A name for a message, cut where a stranger made it long."""
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"


def _stored_tensor(name: str, entry: Any, data_start: int) -> StoredTensor:
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        start, end = entry["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"tensor {short(name)} is not described as safetensors does") from None
    if dtype not in ITEM_BYTES if isinstance(dtype, str) else True:
        raise ValueError(f"tensor {short(name)} has the type {short(dtype)}, which no model has")
    if len(shape) > 16 or not all(type(value) is int and 0 <= value < 1 << 48 for value in (*shape, start, end)):
        raise ValueError(f"the shape or place of tensor {short(name)} cannot be")
    if end - start != prod(shape) * ITEM_BYTES[dtype]:
        raise ValueError(f"tensor {short(name)} has {end - start:,} bytes, which do not fit its shape")
    return StoredTensor(dtype, shape, data_start + start, data_start + end)
