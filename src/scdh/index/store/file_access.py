"""Opening, locking and replacing the file of an index."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError, IndexLockedError
from scdh.index.segments import Segment, vector_kind
from scdh.index.store.arrays import StoredArrays
from scdh.index.store.format import BODY_AT, SLOTS_AT, Entry, Extent, Manifest, Pen, encode_removed, write_at
from scdh.storage.files import leftovers, open_regular

try:
    import fcntl
except ImportError:  # Windows has no such locks, so no IndexWriter; reading and write_index work
    fcntl = None  # type: ignore[assignment]


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[FileIO]:
    """The file for reading."""
    try:
        with FileIO(os.fspath(path), "r", opener=open_regular) as handle:
            yield handle
    except FileNotFoundError:
        raise CodesError(f"There is no scdh-index file at {path}.") from None
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error


def open_locked(target: Path, mode: str, name: str | os.PathLike[str]) -> FileIO:
    """The file, locked against other writers; ``name`` is its name in error messages."""
    while True:
        handle = FileIO(target, mode, opener=open_regular)
        try:
            lock(handle, name)
            if is_at(target, handle):
                return handle
        except BaseException:
            handle.close()
            raise
        # Between opening and locking, a writer replaced the file, so the lock is on the old one.
        handle.close()


def lock(handle: FileIO, name: str | os.PathLike[str]) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise IndexLockedError(f"{name} is open in another IndexWriter, but only one may write at a time.") from None


def release(handle: FileIO) -> None:
    if fcntl is not None:
        # Closing is not enough: memory maps keep the file open, and with it the lock.
        fcntl.flock(handle, fcntl.LOCK_UN)
    handle.close()


def is_at(target: Path, handle: FileIO) -> bool:
    """Whether this open file is still the one at that path."""
    try:
        return os.path.samestat(os.stat(target), os.fstat(handle.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def exclusive(target: Path, name: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes from creating, replacing or writing the file; an error while an IndexWriter has it open."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    folder = os.open(target.parent, os.O_RDONLY)
    handle: FileIO | None = None
    try:
        # A file that does not exist yet cannot be locked, so its folder is; some systems cannot lock folders.
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        if target.exists():
            handle = open_locked(target, "r", name)
        yield
    finally:
        if handle is not None:
            release(handle)
        os.close(folder)


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed writers; one that is in use is locked by its writer."""
    for leftover in leftovers(target):
        with suppress(OSError, CodesError):
            release(open_locked(leftover, "r", leftover))
            leftover.unlink()


def write_whole(
    temporary: Path, head: Manifest, segments: Sequence[Segment], generation: int, known: StoredArrays, name: str
) -> FileIO:
    """Write a file with these segments, which stays open and locked; both slots are the same. ``head`` has bits and
    metadata.
    """
    handle = FileIO(temporary, "w+")
    try:
        lock(handle, name)
        pen = Pen(handle, BODY_AT)
        slot = pen.finish(write_arrays(pen, head, segments, known, True, name), generation)
        for at in SLOTS_AT:
            write_at(handle, at, slot.pack())
        os.fsync(handle.fileno())
    except BaseException:
        handle.close()
        raise
    return handle


def write_arrays(
    pen: Pen, head: Manifest, segments: Sequence[Segment], known: StoredArrays, again: bool, name: str
) -> Manifest:
    """The manifest of segments, whose arrays are written unless they are in the file already and not ``again``."""

    def place(array: NDArray[Any], is_mask: bool = False) -> Extent:
        extent = known.extent_of(array)
        if extent is not None and not again:
            return extent
        written = pen.put(encode_removed(array) if is_mask else little_endian(array))
        if extent is not None and extent.crc != written.crc:
            # A new checksum would hide that the array has changed since it was stored.
            raise CodesError(
                f"{name} is not written: an array at byte {extent.at} of the file it came from is damaged and does not "
                "match its checksum."
            )
        return written

    entries = []
    for segment in segments:
        for guard in (segment.words_guard, segment.ids_guard, segment.vectors_guard):
            if guard is not None:
                guard.check_unchanged()
        words = place(segment.words)
        ids = segment.ids if isinstance(segment.ids, int) else place(segment.ids)
        removed = None if segment.alive is None or segment.alive.all() else place(segment.alive, is_mask=True)
        vectors = None if segment.vectors is None else place(segment.vectors)
        entries.append(Entry(segment.rows, words, ids, removed, vectors))
    return Manifest(head.bits, head.metadata, tuple(entries), vector_kind(segments))


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
