"""Named arrays on disk: safetensors files that name their format, and are refused when damaged or cut short.

Any safetensors reader opens them. They are written here rather than by that package, because it copies every array
first, and here nothing is read twice: the header has a checksum for itself and one for each array, so that a reader
checks the arrays that it takes and leaves the others alone.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.checksums import array_checksum, json_checksum
from scdh.errors import CodesError
from scdh.files import open_regular, remove_abandoned, replacing

RESERVED = ("format", "version", "bits")
CHECKSUMS = "scdh_checksums"
_VERSION = "2"
_WITHOUT_CHECKSUMS = "1"  # of earlier versions, which still open
# safetensors itself refuses longer headers, so a larger number means that the file is something else.
_LONGEST_HEADER = 100_000_000
_NUMPY_TYPES = {
    "U8": "u1",
    "I8": "i1",
    "BOOL": "?",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
_STORED_TYPES = {np.dtype(numpy_type): name for name, numpy_type in _NUMPY_TYPES.items()}


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
    """The open file of some arrays; each is read, and compared with its checksum, when it is asked for.

    Args:
        handle: the file, open at any place.
        path: how the user calls it.
        format_name: what the file says it is.
        header: of the file.
        data_at: where the arrays begin.
    """

    def __init__(self, handle: FileIO, path: Path, format_name: str, header: dict[str, Any], data_at: int) -> None:
        self.path, self.format_name = path, format_name
        self._handle, self._data_at = handle, data_at
        self._entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        self._text: dict[str, str] = dict(header["__metadata__"])
        self.has_checksums = self._text["version"] != _WITHOUT_CHECKSUMS
        self._checksums = self._read_checksums() if self.has_checksums else {}
        if not all(isinstance(text, str) for text in self._text.values()):
            raise CodesError(f"{path} is damaged: its metadata are not all text.")

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
        if self.has_checksums and array_checksum({name: array}, {}) != self._checksums[name]:
            raise CodesError(f"{self.path} is damaged: its {name} do not match their checksum.")
        return array

    def _read_array(self, name: str) -> NDArray[Any]:
        entry = self._entries[name]
        try:
            dtype, shape = np.dtype(_NUMPY_TYPES[entry["dtype"]]), tuple(entry["shape"])
            begin, end = entry["data_offsets"]
            numbers = (*shape, begin, end)
            is_sound = all(type(number) is int and number >= 0 for number in numbers)
            if not is_sound or math.prod(shape) * dtype.itemsize != end - begin:
                raise ValueError(f"a shape of {list(shape)} in bytes {begin} to {end}")
        except (KeyError, TypeError, ValueError) as error:
            raise CodesError(f"{self.path} is damaged: its {name} make no sense ({error}).") from None
        data = np.empty(end - begin, np.uint8)
        try:
            self._handle.seek(self._data_at + begin)
            view, done = data.data, 0
            while done < len(view):
                count = self._handle.readinto(view[done:])
                if not count:
                    raise CodesError(f"{self.path} is cut short: bytes {begin} to {end} of its {name} are missing.")
                done += count
        except OSError as error:
            raise CodesError(f"{self.path} cannot be read: {error.strerror}.") from error
        return data.view(dtype).reshape(shape)

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
def open_tensors(path: str | os.PathLike[str], format_name: str) -> Iterator[StoredTensors]:
    """Open a file of that format; broken and foreign files are refused.

    All that is read from it belongs together, also if another process replaces the file meanwhile.
    """
    path = Path(path)
    try:
        handle = FileIO(path, "r", opener=open_regular)
    except FileNotFoundError:
        raise CodesError(f"There is no {format_name} file at {path}.") from None
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error
    with handle:
        header, data_at = _read_header(handle, path, format_name)
        yield StoredTensors(handle, path, format_name, header, data_at)


def read_metadata(path: str | os.PathLike[str], format_name: str) -> dict[str, str]:
    """What a file of that format says about itself, without its tensors."""
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


def _read_header(handle: FileIO, path: Path, format_name: str) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file and where it ends, once the file is of that format and as long as it says.

    A safetensors file is 8 bytes with the length of the header, the header as JSON, and the tensors' bytes.
    """
    not_this_format = f"{path} is not a {format_name} file"
    try:
        size = os.fstat(handle.fileno()).st_size
        start = handle.read(9)
        length = int.from_bytes(start[:8], "little")
        if start.startswith(b"scdh-inde"):
            raise CodesError(f"{not_this_format}: it is one of scdh-index.")
        if size >= 8 and (not 2 <= length <= _LONGEST_HEADER or start[8:] not in (b"", b"{")):
            raise CodesError(f"{not_this_format}: it does not begin with a safetensors header.")
        if size < 8 or size < 8 + length:
            expected = 8 + length if size >= 8 else 9
            raise CodesError(f"{path} is cut short: at least {expected} bytes were expected, but {size} were found.")
        text = start[8:] + handle.read(length - 1)
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        header = json.loads(text)
        metadata = header.get("__metadata__", {})
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        expected = 8 + length + int(max(ends, default=0))
        file_format, version = metadata.get("format"), metadata.get("version")
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        raise CodesError(f"{not_this_format}: its header cannot be understood.") from None
    if file_format != format_name:
        raise CodesError(f"{not_this_format}: its header names the format {file_format!r}.")
    if version not in (_VERSION, _WITHOUT_CHECKSUMS):
        known = f"{_WITHOUT_CHECKSUMS!r} and {_VERSION!r}"
        raise CodesError(f"{path} is a {format_name} file of version {version!r}, but only {known} can be read.")
    if size != expected:
        state = "cut short" if size < expected else "too long"
        raise CodesError(f"{path} is {state}: its header promises {expected} bytes, but {size} bytes were found.")
    return header, 8 + length
