"""Arrays of codes on disk: safetensors files that name their format and are refused when cut short."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.files import replacing

RESERVED = ("format", "version", "bits")
_VERSION = "1"
# safetensors itself refuses longer headers, so a larger number means that the file is something else.
_LONGEST_HEADER = 100_000_000


def write_tensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, NDArray[Any]],
    format_name: str,
    bits: int,
    metadata: Mapping[str, str],
) -> None:
    """Write one safetensors file, whole or not at all, that names its format, its version and the bits."""
    from safetensors.numpy import save_file

    # safetensors writes memory in its order, so a strided view would be read back wrong.
    dense = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    header = {**metadata, "format": format_name, "version": _VERSION, "bits": str(bits)}
    with replacing(path) as temporary:
        save_file(dense, temporary, metadata=header)


def read_tensors(
    path: str | os.PathLike[str], format_name: str, required: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], int, dict[str, str]]:
    """Tensors, bits and further metadata of a file of that format; broken and foreign files are refused."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    header = _read_header(Path(path), format_name)
    metadata = dict(header.get("__metadata__", {}))
    missing = [name for name in required if name not in header]
    bits = str(metadata.get("bits", ""))
    if missing or not re.fullmatch("[0-9]{1,9}", bits):
        missing_part = f"the tensor {missing[0]!r}" if missing else "the number of bits"
        raise CodesError(f"{path} says it is a {format_name} file, but {missing_part} is missing from it.")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise CodesError(f"{path} is damaged and cannot be read as {format_name}: {error}.") from error
    return tensors, int(bits), {key: value for key, value in metadata.items() if key not in RESERVED}


def read_metadata(path: str | os.PathLike[str], format_name: str) -> dict[str, str]:
    """What a file of that format says about itself, without its tensors."""
    metadata = _read_header(Path(path), format_name).get("__metadata__", {})
    return {key: value for key, value in metadata.items() if key not in RESERVED}


def _read_header(path: Path, format_name: str) -> dict[str, Any]:
    """The header of a safetensors file, once the file is known to be of that format and as long as it says.

    A safetensors file is 8 bytes with the length of the header, the header as JSON, and the tensors' bytes.
    """
    not_this_format = f"{path} is not a {format_name} file"
    try:
        with open(path, "rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            start = handle.read(9)
            length = int.from_bytes(start[:8], "little")
            if start.startswith(b"scdh-inde"):
                raise CodesError(f"{not_this_format}: it is one of scdh-index.")
            if size >= 8 and (not 2 <= length <= _LONGEST_HEADER or start[8:] not in (b"", b"{")):
                raise CodesError(f"{not_this_format}: it does not begin with a safetensors header.")
            if size < 8 or size < 8 + length:
                expected = 8 + length if size >= 8 else 9
                raise CodesError(
                    f"{path} is cut short: at least {expected} bytes were expected, but {size} were found."
                )
            text = start[8:] + handle.read(length - 1)
    except FileNotFoundError:
        raise CodesError(f"There is no {format_name} file at {path}.") from None
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
    if version != _VERSION:
        raise CodesError(f"{path} is a {format_name} file of version {version!r}, but only {_VERSION!r} can be read.")
    if size != expected:
        state = "cut short" if size < expected else "too long"
        raise CodesError(f"{path} is {state}: its header promises {expected} bytes, but {size} bytes were found.")
    return header
