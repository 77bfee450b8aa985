"""An index on disk: one writer, many readers, and at no moment anything but whole states.

``format`` describes the file. Readers take no lock: what a state points to is never written again, and a file
that is replaced lives on for those who have it open. The writer holds a lock on the file itself.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike

from scdh.code_checks import check_hamming_codes
from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.files import replacing
from scdh.index.arguments import id_row
from scdh.index.segments import Segment, add_segment, choose_ids, make_segment, refuse_repeated, remove_ids
from scdh.index.store import files
from scdh.index.store.arrays import StoredArrays, StoredIndex, checked_segments, read_state
from scdh.index.store.format import SLOT_BYTES, SLOTS_AT, Manifest, Pen, aligned, read_header, write_at

# A file is written anew once more of it is unused than used, and at least this much.
UNUSED_BYTES = 16 << 20


def read_index(
    path: str | os.PathLike[str], *, verify: bool | None = None, known: StoredArrays | None = None
) -> StoredIndex:
    """The newest state of a file, whose codes stay on disk until they are looked at.

    ``verify`` compares the checksums of all arrays; None does so where they have at most 64 MB together. Header and
    manifest are checked in any case. Arrays that are ``known`` from an earlier state are taken from there.
    """
    with files.opened(path) as handle:
        return read_state(handle, path, StoredArrays() if known is None else known, verify)


def has_torn_header(path: str | os.PathLike[str]) -> bool:
    """Does one of the two headers not match its checksum? A power cut can leave this; the next commit repairs it."""
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
    """Write a whole file, which replaces what was there in one step; refused while an IndexWriter has it open.

    Arrays that are ``known`` from a file must match their checksums there: rot is not given a new one.
    """
    target = Path(os.path.realpath(path))
    head = Manifest.of(bits, metadata)
    known = StoredArrays() if known is None else known
    wanted = checked_segments(segments, bits, known)
    try:
        with files.exclusive(target, path):
            pass  # refuse at once rather than after a long time of writing
        with ExitStack() as until_replaced:
            with replacing(target) as temporary:
                handle = files.write_whole(temporary, head, wanted, 1, known, str(path))
                until_replaced.callback(handle.close)
                until_replaced.enter_context(files.exclusive(target, path))
                handle.close()
            files.sync_folder(target)
    except OSError as error:
        raise CodesError(f"{path} could not be written and is left as it was: {error.strerror}.") from error


class IndexWriter:
    """The one writer of an index file, which is begun if it does not exist (then ``bits`` must be given).

    Each ``add``, ``remove`` and ``commit`` is durable once it returns; killed before, it has happened wholly or not.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/birds.index"
    >>> with IndexWriter(path, bits=3) as writer:
    ...     writer.add(Codes.from_bits([[0, 0, 0], [1, 1, 1]]), ids=[30, 10])
    ...     writer.remove([30])
    >>> [segment.alive_ids().tolist() for segment in read_index(path).segments]
    [[10]]
    """

    def __init__(
        self, path: str | os.PathLike[str], bits: int | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        """For a file that exists, ``bits`` and ``metadata`` may be given too; they must then be those of the file."""
        if files.fcntl is None:
            raise CodesError(f"{path} cannot be locked on this system, as an IndexWriter must; take write_index.")
        self.path = Path(path)
        self._target = Path(os.path.realpath(path))
        self._arrays = StoredArrays()
        self._unsure = False
        self._handle: FileIO | None = None
        try:
            if not self._target.exists():
                self._begin(bits, metadata)
            self._handle = files.open_locked(self._target, "r+", path)
            header = read_header(self._handle, path)
            self._state = read_state(self._handle, path, self._arrays, None)
            self._refuse_others(bits, metadata)
            self._clean_up(header.broken)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise CodesError(f"{path} cannot be opened for writing: {error.strerror}.") from error
            raise

    @property
    def bits(self) -> int:
        return self._state.bits

    @property
    def metadata(self) -> dict[str, str]:
        return dict(self._state.metadata)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The newest state. Take it afresh for each commit: these very arrays are the ones known to be on disk."""
        return self._state.segments

    @property
    def generation(self) -> int:
        return self._state.generation

    def __len__(self) -> int:
        return len(self._state)

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Add codes; without ids (given, or carried by the codes) they count on from the largest one."""
        self.add_all([(codes, ids)])

    def add_all(self, parts: Iterable[tuple[Codes, ArrayLike | None]]) -> None:
        """Add codes of several sources in one commit: all of them or none."""
        segments = self.segments
        for codes, ids in parts:
            check_hamming_codes(codes, "The codes to add", self.bits)
            segments = add_segment(segments, make_segment(codes, choose_ids(segments, codes, ids)))
        self.commit(segments)

    def remove(self, ids: ArrayLike) -> None:
        """Remove these ids; if one of them is unknown or given twice, nothing is removed."""
        gone = id_row(ids)
        refuse_repeated(gone)
        self.commit(remove_ids(self.segments, gone))

    def commit(self, segments: Sequence[Segment]) -> None:
        """Make these segments the state of the file; that no id is in two of them is for the caller to see to.

        Arrays that are in ``self.segments`` already are not written again. After an error the file has its last state
        and the writer can go on, unless the error says otherwise.
        """
        handle = self._in_place()
        wanted = checked_segments(segments, self.bits, self._arrays)
        if len(wanted) == len(self.segments) and all(a is b for a, b in zip(wanted, self.segments, strict=True)):
            return
        try:
            if self._is_wasteful(wanted):
                try:
                    return self._write_anew(handle, wanted)
                except OSError:
                    # No room for a second file: the old one can still grow, unless it is no longer the one in use.
                    if self._unsure:
                        raise
            self._append(handle, wanted)
        except OSError as error:
            state = "may or may not hold this commit (open it again to see)" if self._unsure else "keeps its last state"
            raise CodesError(f"{self.path} could not be written and {state}: {error.strerror}.") from error

    def close(self) -> None:
        """Let others write; all commits are on disk already."""
        if self._handle is not None:
            files.release(self._handle)
            self._handle = None

    def __enter__(self) -> "IndexWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, handle: FileIO, wanted: Sequence[Segment]) -> None:
        last = self._state.slot
        start = aligned(last.end)
        try:
            pen = Pen(handle, start + SLOT_BYTES)
            manifest = files.write_arrays(pen, self._head(), wanted, self._arrays, False, str(self.path))
            slot = pen.finish(manifest, last.generation + 1)
            write_at(handle, start, slot.pack())
            os.fsync(handle.fileno())
            self._in_place()
        except BaseException:
            with suppress(OSError):  # a full disk gets its space back
                os.ftruncate(handle.fileno(), last.end)
            raise
        # If it breaks off from here on, this state may be the newest one, and its bytes must not be written over.
        self._unsure = True
        write_at(handle, SLOTS_AT[slot.generation % 2], slot.pack())
        os.fsync(handle.fileno())
        segments = self._arrays.load(handle, start, slot.end, manifest, self.path, verify=False)
        self._state = StoredIndex(self.bits, self._state.metadata, segments, slot)
        self._unsure = False
        self._in_place()

    def _write_anew(self, handle: FileIO, wanted: Sequence[Segment]) -> None:
        """Leave what is unused behind in the old file; readers that have it open go on with it."""
        mode = os.fstat(handle.fileno()).st_mode & 0o7777
        new: FileIO | None = None
        self._unsure = True
        try:
            with replacing(self._target) as temporary:
                generation = self.generation + 1
                new = files.write_whole(temporary, self._head(), wanted, generation, self._arrays, str(self.path))
        except (OSError, CodesError):
            self._unsure = False
            if new is not None:
                new.close()
            raise
        self._handle = new
        files.release(handle)
        os.fchmod(new.fileno(), mode)
        files.sync_folder(self._target)
        self._arrays = StoredArrays()
        self._state = read_state(new, self.path, self._arrays, False)
        self._unsure = False

    def _is_wasteful(self, wanted: Sequence[Segment]) -> bool:
        arrays = [array for s in wanted for array in (s.words, s.ids) if isinstance(array, np.ndarray)]
        used = sum(array.nbytes for array in arrays)
        new = sum(array.nbytes for array in arrays if self._arrays.extent_of(array) is None)
        return self._state.slot.end + new - used > max(used, UNUSED_BYTES)

    def _head(self) -> Manifest:
        return Manifest(self.bits, self._state.metadata, ())

    def _in_place(self) -> FileIO:
        """The open file, which must still be the one that others find under its name."""
        if self._handle is None:
            raise CodesError(f"The writer of {self.path} is closed; open a new one.")
        if self._unsure:
            raise CodesError(f"The last commit to {self.path} broke off; close this writer and open a new one.")
        if not files.is_at(self._target, self._handle):
            raise CodesError(f"{self.path} was removed or replaced by another program; close this writer.")
        return self._handle

    def _begin(self, bits: int | None, metadata: Mapping[str, str] | None) -> None:
        if bits is None:
            raise CodesError(f"There is no scdh-index file at {self.path}; give the number of bits to begin one.")
        head = Manifest.of(bits, metadata)
        with files.exclusive(self._target, self.path):
            if not self._target.exists():  # else somebody was faster, and it is opened
                with replacing(self._target) as temporary:
                    files.write_whole(temporary, head, (), 1, self._arrays, str(self.path)).close()
                files.sync_folder(self._target)

    def _refuse_others(self, bits: int | None, metadata: Mapping[str, str] | None) -> None:
        if bits is not None and bits != self.bits:
            raise CodesError(f"{self.path} holds codes of {self.bits} bits, but {bits!r} bits were expected.")
        for key, value in (metadata or {}).items():
            there = self.metadata.get(key)
            if there != value:
                raise CodesError(f"{self.path} has the metadata {key} = {there!r}, but {value!r} was expected.")

    def _clean_up(self, broken: Sequence[int]) -> None:
        """Remove what a killed writer left, and write a torn slot again before its counterpart is written next."""
        handle, slot = self._in_place(), self._state.slot
        for number in broken:
            write_at(handle, SLOTS_AT[number], slot.pack())
            os.fsync(handle.fileno())
        if os.fstat(handle.fileno()).st_size > slot.end:
            os.ftruncate(handle.fileno(), slot.end)
        files.sweep(self._target)
