"""Arrays of codes and indexes on disk: safetensors files that say what they are and are refused when cut short."""

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
    form: str,
    bits: int,
    metadata: Mapping[str, str],
) -> None:
    """One safetensors file, whole or not at all, that names its format, its version and the bits."""
    from safetensors.numpy import save_file

    # safetensors writes the memory as it lies, so a strided view would come back scrambled.
    dense = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    header = {**metadata, "format": form, "version": _VERSION, "bits": str(bits)}
    with replacing(path) as temporary:
        save_file(dense, temporary, metadata=header)


def read_tensors(
    path: str | os.PathLike[str], form: str, required: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], int, dict[str, str]]:
    """Tensors, bits and further metadata of a file of that format; broken and foreign files are refused."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    header = _read_header(Path(path), form)
    metadata = dict(header.get("__metadata__", {}))
    missing = [name for name in required if name not in header]
    bits = str(metadata.get("bits", ""))
    if missing or not re.fullmatch("[0-9]{1,9}", bits):
        what = f"the tensor {missing[0]!r}" if missing else "the number of bits"
        raise CodesError(f"{path} says it is a {form} file, but {what} is missing from it.")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise CodesError(f"{path} is damaged and cannot be read as {form}: {error}.") from error
    return tensors, int(bits), {key: value for key, value in metadata.items() if key not in RESERVED}


def _read_header(path: Path, form: str) -> dict[str, Any]:
    """The header of a safetensors file, once the file is known to be of that format and as long as it says.

    A safetensors file is 8 bytes with the length of the header, the header as JSON, and the tensors' bytes.
    """
    foreign = f"{path} is not a {form} file"
    try:
        with open(path, "rb") as handle:
            found = os.fstat(handle.fileno()).st_size
            start = handle.read(9)
            length = int.from_bytes(start[:8], "little")
            if start.startswith(b"scdh-inde"):
                raise CodesError(f"{foreign}: it is one of scdh-index.")
            if found >= 8 and (not 2 <= length <= _LONGEST_HEADER or start[8:] not in (b"", b"{")):
                raise CodesError(f"{foreign}: it does not begin with a safetensors header.")
            if found < 8 or found < 8 + length:
                expected = 8 + length if found >= 8 else 9
                raise CodesError(
                    f"{path} is cut short: at least {expected} bytes were expected, but {found} were found."
                )
            text = start[8:] + handle.read(length - 1)
    except FileNotFoundError:
        raise CodesError(f"There is no {form} file at {path}.") from None
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        header = json.loads(text)
        metadata = header.get("__metadata__", {})
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        expected = 8 + length + int(max(ends, default=0))
        kind, version = metadata.get("format"), metadata.get("version")
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        raise CodesError(f"{foreign}: its header cannot be understood.") from None
    if kind != form:
        raise CodesError(f"{foreign}: its header names the format {kind!r}.")
    if version != _VERSION:
        raise CodesError(f"{path} is a {form} file of version {version!r}, but only {_VERSION!r} can be read.")
    if found != expected:
        state = "cut short" if found < expected else "too long"
        raise CodesError(f"{path} is {state}: its header promises {expected} bytes, but {found} bytes were found.")
    return header
