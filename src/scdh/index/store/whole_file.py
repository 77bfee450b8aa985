"""Reading the newest state of an index file, and writing a whole file."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from scdh.errors import CodesError
from scdh.index.segments import Segment
from scdh.index.store import files
from scdh.index.store.arrays import StoredArrays, StoredIndex, checked_segments, read_state
from scdh.index.store.format import Manifest, read_header
from scdh.storage.files import replacing


def read_index(
    path: str | os.PathLike[str], *, verify: bool | None = None, known: StoredArrays | None = None
) -> StoredIndex:
    """The newest state of a file; arrays of more than 64 MB together stay on disk until they are read.

    ``verify`` checks all arrays; None does so if they have at most 64 MB together, and others are checked when they are
    read. Header and manifest are always checked. Arrays ``known`` from an earlier state are not loaded again.
    """
    with files.opened(path) as handle:
        return read_state(handle, path, StoredArrays() if known is None else known, verify)


def has_torn_header(path: str | os.PathLike[str]) -> bool:
    """Whether one of the two headers does not match its checksum, as after a power cut; the next commit repairs it."""
    with files.opened(path) as handle:
        return bool(read_header(handle, path).broken)


def is_newer(path: str | os.PathLike[str], than: StoredIndex) -> bool:
    """Whether the file has another state than this one, committed or saved over it; reads two headers of 64 bytes."""
    with files.opened(path) as handle:
        return read_header(handle, path).slot != than.slot


def write_index(
    path: str | os.PathLike[str],
    bits: int,
    metadata: Mapping[str, str] | None,
    segments: Sequence[Segment],
    known: StoredArrays | None = None,
) -> None:
    """Write a whole file, which replaces an existing one in one step; rejected while an IndexWriter has it open.

    Arrays that are ``known`` from a file must match their checksums, so that damage does not get a new checksum.
    """
    target = Path(os.path.realpath(path))
    head = Manifest.empty(bits, metadata)
    known = StoredArrays() if known is None else known
    checked = checked_segments(segments, bits, known)
    try:
        with files.exclusive(target, path):
            pass  # reject at once rather than after writing for a long time
        with ExitStack() as until_replaced, replacing(target) as temporary:
            handle = files.write_whole(temporary, head, checked, 1, known, str(path))
            until_replaced.callback(handle.close)
            until_replaced.enter_context(files.exclusive(target, path))
            handle.close()
    except OSError as error:
        raise CodesError(f"{path} could not be written and is left as it was: {error.strerror}.") from error
