"""Checksums of stored contents, so that damage is noticed instead of used.

XXH3 (64 bits) reads memory faster than disks deliver it, several times as fast as zlib's CRC-32. It finds damage; it
does not prove who wrote a file.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

CHECKSUM = "checksum"  # the entry of a description that holds the checksum of everything else
_KIND = "xxh3_64:"


def array_checksum(arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]) -> str:
    """Checksum of named arrays and their description.

    >>> a = array_checksum({"x": np.arange(3)}, {"bits": 8})
    >>> b = array_checksum({"x": np.arange(3)}, {"bits": 8, "checksum": a})
    >>> (a == b, a == array_checksum({"x": np.arange(3)}, {"bits": 9}))
    (True, False)
    """
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    state = xxhash.xxh3_64(_canonical([_without_checksum(description), shapes]))
    for name in sorted(arrays):
        state.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return _KIND + state.hexdigest()


def json_checksum(content: Mapping[str, Any]) -> str:
    """Checksum of a table that JSON can hold; an entry ``checksum`` does not count."""
    return _KIND + xxhash.xxh3_64(_canonical(_without_checksum(content))).hexdigest()


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The table with its checksum in the entry ``checksum``.

    >>> is_intact(with_checksum({"a": 1})), is_intact({**with_checksum({"a": 1}), "a": 2}), is_intact({"a": 1})
    (True, False, True)
    """
    return {**_without_checksum(content), CHECKSUM: json_checksum(content)}


def is_intact(content: Mapping[str, Any]) -> bool:
    """Whether the table matches its checksum. A table without one matches: people remove it to edit a file by hand."""
    return CHECKSUM not in content or content[CHECKSUM] == json_checksum(content)


def _without_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != CHECKSUM}


def _canonical(content: Any) -> bytes:
    """The same bytes for the same content, regardless of how a file formats it."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
