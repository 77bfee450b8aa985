"""Appending to an index file: each commit is durable, and a kill leaves the state before or after it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from scdh.codes import Codes, ranking_of
from scdh.codes.checks import check_ranked_codes
from scdh.errors import CodesError
from scdh.index.arguments import check_distinct, id_row
from scdh.index.segments import Segment, add_segment, choose_ids, make_segment, remove_ids
from scdh.index.store import file_access
from scdh.index.store.arrays import StoredArrays, StoredIndex, checked_segments, read_state
from scdh.index.store.format import SLOT_BYTES, SLOTS_AT, Manifest, Pen, aligned, read_header, write_at
from scdh.storage.files import replacing, sync_folder

# A file is rewritten once more of it is unused than used, and at least this much.
UNUSED_BYTES = 16 << 20


class IndexWriter:
    """The one writer of an index file; a context manager that closes the file at its end.

    Each ``add``, ``remove`` and ``commit`` is durable when it returns; after a kill it is done completely or not at
    all.

    Args:
        path: the file, which is created if it does not exist.
        bits: of each code; needed for a new file, and must be the same for an existing one.
        metadata: text by name, saved in a new file; an existing file must have the same values.

    Raises:
        CodesError: if another writer has the file open, it is damaged, or its bits or metadata differ.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/birds.index"
    >>> with IndexWriter(path, bits=3) as writer:
    ...     writer.add(Codes.from_bits([[0, 0, 0], [1, 1, 1]]), ids=[30, 10])
    ...     writer.remove([30])
    ...     len(writer)
    1
    """

    def __init__(
        self, path: str | os.PathLike[str], bits: int | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        if file_access.fcntl is None:
            raise CodesError(f"{path} cannot be locked on this system, as an IndexWriter must; use HammingIndex.save.")
        self.path = Path(path)
        self._target = Path(os.path.realpath(path))
        self._arrays = StoredArrays()
        self._interrupted = False
        self._handle: FileIO | None = None
        try:
            if not self._target.exists():
                self._create(bits, metadata)
            self._handle = file_access.open_locked(self._target, "r+", path)
            header = read_header(self._handle, path)
            self._state = read_state(self._handle, path, self._arrays, None)
            self._check_contents(bits, metadata)
            self._clean_up(header.broken)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise CodesError(f"{path} cannot be opened for writing: {error.strerror}.") from error
            raise

    @property
    def bits(self) -> int:
        """The number of bits of each code."""
        return self._state.bits

    @property
    def metadata(self) -> dict[str, str]:
        """Text by name that is saved with the codes; a copy."""
        return dict(self._state.metadata)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The newest state. Read it again for each commit: only arrays of this state are known to be on disk."""
        return self._state.segments

    @property
    def generation(self) -> int:
        """The number of the newest commit."""
        return self._state.generation

    def __len__(self) -> int:
        return len(self._state)

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Add codes in one commit.

        Args:
            codes: m codes of the bits of the file.
            ids: int64 [m], new ones. None takes those of the codes, or else the numbers after the largest id.

        Raises:
            CodesError: if codes or ids do not fit, or the file cannot be written, which then keeps its last state.
        """
        self.add_all([(codes, ids)])

    def add_all(self, parts: Iterable[tuple[Codes, ArrayLike | None]]) -> None:
        """Add several ``parts``, pairs of codes and ids as for ``add``, in one commit: all of them or none."""
        self.replace_all([], parts)

    def replace_all(self, ids: ArrayLike, parts: Iterable[tuple[Codes, ArrayLike | None]]) -> None:
        """Remove the items with these ``ids``, int64 [m], and add ``parts`` as ``add_all`` does, in one commit."""
        segments, ranking = self.segments, ranking_of(self.metadata)
        removed_ids = id_row(ids) if np.size(ids) else np.empty(0, np.int64)
        if removed_ids.size:
            check_distinct(removed_ids)
            segments = remove_ids(segments, removed_ids)
        for codes, new_ids in parts:
            check_ranked_codes(codes, "The codes to add", self.bits, ranking)
            segments = add_segment(segments, make_segment(codes, choose_ids(segments, codes, new_ids)))
        self.commit(segments)

    def remove(self, ids: ArrayLike) -> None:
        """Remove the items with these ``ids``, int64 [m] or one, in one commit.

        Raises:
            IdError: if an id is unknown or repeated; then nothing is removed.
        """
        removed_ids = id_row(ids)
        check_distinct(removed_ids)
        self.commit(remove_ids(self.segments, removed_ids))

    def commit(self, segments: Sequence[Segment]) -> None:
        """Make these ``segments`` the state of the file; the caller must make sure that no id is in two of them.

        Arrays that are in ``self.segments`` already are not written again.
        """
        handle = self._current_handle()
        new_segments = checked_segments(segments, self.bits, self._arrays)
        if len(new_segments) == len(self.segments) and all(
            a is b for a, b in zip(new_segments, self.segments, strict=True)
        ):
            return
        try:
            if self._is_wasteful(new_segments):
                try:
                    return self._rewrite(handle, new_segments)
                except OSError:
                    # No space for a second file; the old one can still grow, unless it was already replaced.
                    if self._interrupted:
                        raise
            self._append(handle, new_segments)
        except OSError as error:
            state = (
                "may or may not hold this commit (open it again to see)"
                if self._interrupted
                else "keeps its last state"
            )
            raise CodesError(f"{self.path} could not be written and {state}: {error.strerror}.") from error

    def close(self) -> None:
        """Release the lock, so that another writer can open the file; all commits are on disk already."""
        if self._handle is not None:
            file_access.release(self._handle)
            self._handle = None

    def __enter__(self) -> "IndexWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, handle: FileIO, new_segments: Sequence[Segment]) -> None:
        last = self._state.slot
        start = aligned(last.end)
        try:
            pen = Pen(handle, start + SLOT_BYTES)
            manifest = file_access.write_arrays(pen, self._head(), new_segments, self._arrays, False, str(self.path))
            slot = pen.finish(manifest, last.generation + 1)
            write_at(handle, start, slot.pack())
            os.fsync(handle.fileno())
            self._current_handle()
        except BaseException:
            with suppress(OSError):  # gives space back to a full disk
                os.ftruncate(handle.fileno(), last.end)
            raise
        # If writing is interrupted from here on, this state may be the newest one and must not be overwritten.
        self._interrupted = True
        write_at(handle, SLOTS_AT[slot.generation % 2], slot.pack())
        os.fsync(handle.fileno())
        segments = self._arrays.load(handle, start, slot, manifest, self.path, verify=False)
        self._state = StoredIndex(self.bits, self._state.metadata, segments, slot)
        self._interrupted = False
        self._current_handle()

    def _rewrite(self, handle: FileIO, new_segments: Sequence[Segment]) -> None:
        """Write a new file without unused space; readers that have the old one open can still read it."""
        mode = os.fstat(handle.fileno()).st_mode & 0o7777
        new: FileIO | None = None
        self._interrupted = True
        try:
            with replacing(self._target) as temporary:
                generation = self.generation + 1
                new = file_access.write_whole(
                    temporary, self._head(), new_segments, generation, self._arrays, str(self.path)
                )
        except (OSError, CodesError):
            self._interrupted = False
            if new is not None:
                new.close()
            raise
        self._handle = new
        file_access.release(handle)
        os.fchmod(new.fileno(), mode)
        sync_folder(self._target.parent)
        self._arrays = StoredArrays()
        self._state = read_state(new, self.path, self._arrays, False)
        self._interrupted = False

    def _is_wasteful(self, new_segments: Sequence[Segment]) -> bool:
        arrays = [array for s in new_segments for array in (s.words, s.ids, s.vectors) if isinstance(array, np.ndarray)]
        used = sum(array.nbytes for array in arrays)
        new = sum(array.nbytes for array in arrays if self._arrays.extent_of(array) is None)
        return self._state.slot.end + new - used > max(used, UNUSED_BYTES)

    def _head(self) -> Manifest:
        return Manifest(self.bits, self._state.metadata, ())

    def _current_handle(self) -> FileIO:
        """The open file, which must still be the one at its path."""
        if self._handle is None:
            raise CodesError(f"The writer of {self.path} is closed; open a new one.")
        if self._interrupted:
            raise CodesError(f"The last commit to {self.path} was interrupted; close this writer and open a new one.")
        if not file_access.is_at(self._target, self._handle):
            raise CodesError(f"{self.path} was removed or replaced by another program; close this writer.")
        return self._handle

    def _create(self, bits: int | None, metadata: Mapping[str, str] | None) -> None:
        if bits is None:
            raise CodesError(f"There is no scdh-index file at {self.path}; give the number of bits to create one.")
        head = Manifest.empty(bits, metadata)
        with file_access.exclusive(self._target, self.path):
            if not self._target.exists():  # another process may have created it meanwhile
                with replacing(self._target) as temporary:
                    file_access.write_whole(temporary, head, (), 1, self._arrays, str(self.path)).close()

    def _check_contents(self, bits: int | None, metadata: Mapping[str, str] | None) -> None:
        if bits is not None and bits != self.bits:
            raise CodesError(f"{self.path} holds codes of {self.bits} bits, but {bits!r} bits were expected.")
        for key, value in (metadata or {}).items():
            stored = self.metadata.get(key)
            if stored != value:
                raise CodesError(f"{self.path} has the metadata {key} = {stored!r}, but {value!r} was expected.")

    def _clean_up(self, broken: Sequence[int]) -> None:
        """Remove what a killed writer left, and repair a torn slot before the other slot is written."""
        handle, slot = self._current_handle(), self._state.slot
        for number in broken:
            write_at(handle, SLOTS_AT[number], slot.pack())
            os.fsync(handle.fileno())
        if os.fstat(handle.fileno()).st_size > slot.end:
            os.ftruncate(handle.fileno(), slot.end)
        file_access.remove_leftovers(self._target)


def read_index(
    path: str | os.PathLike[str], *, verify: bool | None = None, known: StoredArrays | None = None
) -> StoredIndex:
    """The newest state of a file; arrays of more than 64 MB together stay on disk until they are read.

    ``verify`` checks all arrays; None does so if they have at most 64 MB together, and others are checked when they are
    read. Header and manifest are always checked. Arrays ``known`` from an earlier state are not loaded again.
    """
    with file_access.opened(path) as handle:
        return read_state(handle, path, StoredArrays() if known is None else known, verify)


def has_torn_header(path: str | os.PathLike[str]) -> bool:
    """Whether one of the two headers does not match its checksum, as after a power cut; the next commit repairs it."""
    with file_access.opened(path) as handle:
        return bool(read_header(handle, path).broken)


def is_newer(path: str | os.PathLike[str], than: StoredIndex) -> bool:
    """Whether the file has another state than this one, committed or saved over it; reads two headers of 64 bytes."""
    with file_access.opened(path) as handle:
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
        with file_access.exclusive(target, path):
            pass  # reject at once rather than after writing for a long time
        with ExitStack() as until_replaced, replacing(target) as temporary:
            handle = file_access.write_whole(temporary, head, checked, 1, known, str(path))
            until_replaced.callback(handle.close)
            until_replaced.enter_context(file_access.exclusive(target, path))
            handle.close()
    except OSError as error:
        raise CodesError(f"{path} could not be written and is left as it was: {error.strerror}.") from error
