"""Named arrays on disk as safetensors files.

A safetensors file is 8 bytes with the length of the header, the header as JSON, and the bytes of the tensors. Codes,
names and models are all opened through :func:`read_header`, which checks the header against the file before anything is
allocated. None of this needs torch.

Files of arrays also name their format and have a checksum for the header and one for each array, so a reader checks
only the arrays that it reads. They are written here rather than by the package safetensors, which copies every array
first; any safetensors reader opens them.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.storage.checksums import array_checksum, json_checksum
from scdh.storage.files import open_regular, remove_abandoned, replacing
from scdh.storage.json_files import parse_json

# Limits for the text of a header or description, which may be untrusted. A million label names fit, and the parsed
# values stay below 200 MB.
LONGEST_TEXT = 1 << 25
MOST_VALUES = 1 << 21
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
RESERVED = ("format", "version", "bits")
CHECKSUMS = "scdh_checksums"
_VERSION = "1"
_STORED_TYPES = {dtype: name for name, dtype in NUMPY_TYPES.items()}


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is in its file: bytes ``start`` to ``end``."""

    dtype: str  # as safetensors names it, such as "F32"
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class TensorHeader:
    """The metadata and tensors that a file declares; the tensors fill the rest of the file exactly."""

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
        raise ValueError("its header cannot be understood, as its metadata are not all text")
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
    """As :func:`parse_json`, for untrusted input: oversized text is rejected before parsing."""
    if len(data) > LONGEST_TEXT or data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_VALUES:
        raise ValueError(f"a text of {len(data):,} bytes is above the limit of scdh")
    return parse_json(data)


def short(text: object) -> str:
    """A name for a message, shortened; it may be untrusted."""
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
        raise ValueError(f"invalid shape or offset of tensor {short(name)}")
    if end - start != prod(shape) * ITEM_BYTES[dtype]:
        raise ValueError(f"tensor {short(name)} has {end - start:,} bytes, which do not fit its shape")
    return StoredTensor(dtype, shape, data_start + start, data_start + end)


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]], format_name: str, metadata: Mapping[str, str]
) -> None:
    """Write one safetensors file, whole or not at all, that names its format and its version."""
    # The largest numbers first, so that every array begins at a multiple of its numbers' size.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    dense = {name: _stored_array(tensors[name]) for name in order}
    text = {**metadata, "format": format_name, "version": _VERSION}
    # Checksums are all of one length, so there is room for them before they are known.
    room = len(_packed_header(text, dense, dict.fromkeys(dense, array_checksum({}, {}))))
    with replacing(path) as temporary, open(temporary, "wb") as handle, ThreadPoolExecutor(1) as other_thread:
        checksums = other_thread.map(lambda name: array_checksum({name: dense[name]}, {}), dense)
        handle.seek(room)
        for array in dense.values():
            handle.write(array.reshape(-1).view(np.uint8).data)
        handle.seek(0)
        handle.write(_packed_header(text, dense, dict(zip(dense, checksums, strict=True))))
    remove_abandoned(Path(os.path.realpath(path)))


class StoredTensors:
    """The open file of some arrays; each is read, and compared with its checksum, on request."""

    def __init__(self, handle: FileIO, path: Path, format_name: str, header: TensorHeader) -> None:
        self.path, self.format_name = path, format_name
        self._handle = handle
        self._entries = header.tensors
        self._text = header.metadata
        self._checksums = self._read_checksums()

    @property
    def metadata(self) -> dict[str, str]:
        """Text by name that the writer gave."""
        return {key: value for key, value in self._text.items() if key not in (*RESERVED, CHECKSUMS)}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def text(self, key: str) -> str:
        """A part of the metadata that belongs to the format; empty if it is not there."""
        return self._text.get(key, "")

    def read(self, name: str) -> NDArray[Any]:
        """The array ``name``.

        Raises:
            CodesError: if it is not there, or is not what was written.
        """
        if name not in self._entries:
            raise CodesError(
                f"{self.path} says it is a {self.format_name} file, but the tensor {name!r} is missing from it."
            )
        array = self._read_array(name)
        if array_checksum({name: array}, {}) != self._checksums[name]:
            raise CodesError(f"{self.path} is damaged: its {name} do not match their checksum.")
        return array

    def _read_array(self, name: str) -> NDArray[Any]:
        stored = self._entries[name]
        if stored.dtype not in NUMPY_TYPES:
            raise CodesError(f"{self.path} is damaged: its {name} are of the type {stored.dtype}.")
        data = np.empty(stored.end - stored.start, np.uint8)
        try:
            read_bytes(self._handle, stored, data.data)
        except ValueError as error:
            raise CodesError(f"{self.path} is cut short: {error}.") from None
        except OSError as error:
            raise CodesError(f"{self.path} cannot be read: {error.strerror}.") from error
        return data.view(NUMPY_TYPES[stored.dtype]).reshape(stored.shape)

    def _read_checksums(self) -> dict[str, str]:
        text = dict(self._text)
        try:
            checksums = json.loads(text.pop(CHECKSUMS))
            of_tensors = dict(checksums["tensors"])
            is_intact = checksums["header"] == _header_checksum(text, of_tensors)
        except (ValueError, TypeError, LookupError, RecursionError):
            raise CodesError(f"{self.path} is damaged: its checksums are missing or cannot be read.") from None
        if not is_intact or of_tensors.keys() != self._entries.keys():
            raise CodesError(f"{self.path} is damaged: its header does not match its checksum.")
        return of_tensors


@contextmanager
def open_tensors(
    path: str | os.PathLike[str], format_name: str, opener: Callable[[str, int], int] = open_regular
) -> Iterator[StoredTensors]:
    """Open a file of that format; raises for a damaged file or another format.

    All arrays come from the same file, even if another process replaces it meanwhile.
    """
    path = Path(path)
    try:
        handle = FileIO(path, "r", opener=opener)
    except FileNotFoundError:
        raise CodesError(f"There is no {format_name} file at {path}.") from None
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error
    with handle:
        yield StoredTensors(handle, path, format_name, _read_header(handle, path, format_name))


def read_metadata(path: str | os.PathLike[str], format_name: str) -> dict[str, str]:
    """The metadata of a file of that format."""
    with open_tensors(path, format_name) as stored:
        return stored.metadata


def _stored_array(array: NDArray[Any]) -> NDArray[Any]:
    """Contiguous, because memory is written in its order, and with the lowest byte first."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _packed_header(text: Mapping[str, str], tensors: Mapping[str, NDArray[Any]], of_tensors: dict[str, str]) -> bytes:
    """The start of the file, up to the first array."""
    checksums = {"header": _header_checksum(text, of_tensors), "tensors": of_tensors}
    header: dict[str, Any] = {"__metadata__": {**text, CHECKSUMS: json.dumps(checksums)}}
    end = 0
    for name, array in tensors.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _STORED_TYPES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    start = json.dumps(header).encode()
    start += b" " * (-len(start) % 8)
    return len(start).to_bytes(8, "little") + start


def _header_checksum(text: Mapping[str, str], of_tensors: Mapping[str, str]) -> str:
    return json_checksum({"metadata": dict(text), "tensors": dict(of_tensors)})


def _read_header(handle: FileIO, path: Path, format_name: str) -> TensorHeader:
    """The header of a file that is of that format and as long as it says."""
    not_this_format = f"{path} is not a {format_name} file"
    try:
        header = read_header(handle)
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        handle.seek(0)
        reason = "it is one of scdh-index" if handle.read(10) == b"scdh-index" else error
        raise CodesError(f"{not_this_format}, or damaged: {reason}.") from None
    file_format, version = header.metadata.get("format"), header.metadata.get("version")
    if file_format != format_name:
        raise CodesError(f"{not_this_format}: its header names the format {file_format!r}.")
    if version != _VERSION:
        raise CodesError(f"{path} is a {format_name} file of version {version!r}, but only {_VERSION!r} can be read.")
    return header
