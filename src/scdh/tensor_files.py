"""Named arrays on disk: safetensors files that name their format, and are refused when damaged or cut short.

Any safetensors reader opens them. They are written here rather than by that package, because it copies every array
first, and here nothing is read twice: the header has a checksum for itself and one for each array, so that a reader
checks the arrays that it takes and leaves the others alone.
"""

import json
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
from scdh.tensor_header import NUMPY_TYPES, TensorHeader, read_bytes, read_header

RESERVED = ("format", "version", "bits")
CHECKSUMS = "scdh_checksums"
_VERSION = "2"
_WITHOUT_CHECKSUMS = "1"  # of earlier versions, which still open
_STORED_TYPES = {dtype: name for name, dtype in NUMPY_TYPES.items()}


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
    """

    def __init__(self, handle: FileIO, path: Path, format_name: str, header: TensorHeader) -> None:
        self.path, self.format_name = path, format_name
        self._handle, self._entries, self._text = handle, header.tensors, header.metadata
        self.has_checksums = self._text["version"] != _WITHOUT_CHECKSUMS
        self._checksums = self._read_checksums() if self.has_checksums else {}

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
        yield StoredTensors(handle, path, format_name, _read_header(handle, path, format_name))


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
    if version not in (_VERSION, _WITHOUT_CHECKSUMS):
        known = f"{_WITHOUT_CHECKSUMS!r} and {_VERSION!r}"
        raise CodesError(f"{path} is a {format_name} file of version {version!r}, but only {known} can be read.")
    return header
