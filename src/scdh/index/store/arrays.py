"""The arrays of a stored index: small ones are read when it is opened, large ones are mapped and read when needed."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.index.segments import Segment, vector_kind
from scdh.index.store.blocks import (
    ArrayBlocks,
    MappedFile,
    Problem,
    finite_problem,
    is_ascending,
    order_problem,
    read_copy,
    spare_bits_problem,
)
from scdh.index.store.format import (
    LARGEST_ID,
    Entry,
    Extent,
    Manifest,
    Path,
    Slot,
    check_not_sparse,
    decode_removed,
    empty_words,
    read_header,
    read_manifest,
)

# Files with at most this many bytes are read and checked when they are opened, which takes less than 0.1 s.
VERIFIED_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """One committed state of a file; later commits do not change it."""

    bits: int
    metadata: dict[str, str]
    segments: tuple[Segment, ...]
    slot: Slot = field(repr=False)

    @property
    def generation(self) -> int:
        """Grows by one with every commit."""
        return self.slot.generation

    def __len__(self) -> int:
        """The number of items."""
        return sum(len(segment) for segment in self.segments)


class StoredArrays:
    """The arrays of a file, and the place of each in it.

    An array stays the same object from one commit to the next, so that a writer knows what is on disk already.
    """

    def __init__(self) -> None:
        self._arrays: dict[Extent, NDArray[Any]] = {}
        self._guards: dict[Extent, ArrayBlocks] = {}
        self._extents: dict[int, Extent] = {}

    def extent_of(self, array: NDArray[Any]) -> Extent | None:
        """The place of this array object in the file, if it belongs to the newest state."""
        return self._extents.get(id(array))

    def load(
        self, handle: FileIO, start: int, slot: Slot, manifest: Manifest, path: Path, verify: bool
    ) -> tuple[Segment, ...]:
        """The segments of a manifest; all arrays that are not known yet must be from ``start`` on."""
        check_not_sparse(handle, sum(entry.rows for entry in manifest.entries if entry.removed), path)
        # Few bytes are copied, so that no other program can change them. A map keeps a file open, so all new arrays
        # share one map.
        file = None if manifest.array_bytes <= VERIFIED_BYTES else MappedFile(handle, start, slot, path)
        arrays: dict[Extent, NDArray[Any]] = {}
        guards: dict[Extent, ArrayBlocks] = {}
        segments = []
        for number, entry in enumerate(manifest.entries):
            for kind, extent in entry.extents():
                if extent in self._arrays:
                    arrays[extent] = self._arrays[extent]
                    if extent in self._guards:
                        guards[extent] = self._guards[extent]
                    continue
                data = read_copy(handle, extent, path) if file is None else file.view(extent)
                name = f"{kind} of segment {number}"
                if kind == "removed rows":
                    arrays[extent] = _alive_rows(data, entry.rows, extent, name, path)
                    continue
                arrays[extent], find_problem = _array(data, kind, entry, manifest)
                is_by_row = kind == "vectors"
                guard = ArrayBlocks(data, entry.rows, extent, find_problem, name, path, file, is_by_row=is_by_row)
                if verify:
                    guard.check()
                if file is not None or not guard.is_checked:
                    guards[extent] = guard
            ids = arrays[entry.ids] if isinstance(entry.ids, Extent) else entry.ids
            alive = None if entry.removed is None else arrays[entry.removed]
            ids_guard = guards.get(entry.ids) if isinstance(entry.ids, Extent) else None
            vectors = (None, None) if entry.vectors is None else (arrays[entry.vectors], guards.get(entry.vectors))
            segments.append(Segment(arrays[entry.words], ids, alive, guards.get(entry.words), ids_guard, *vectors))
        if verify and (twice := repeated_id(segments)) is not None:
            raise CodesError(f"{path} is damaged: the id {twice} is in two of its segments.")
        # At the end, so that a rejection changes nothing.
        self._arrays, self._guards = arrays, guards
        self._extents = {id(array): extent for extent, array in arrays.items()}
        return tuple(segments)


def _array(data: NDArray[np.uint8], kind: str, entry: Entry, manifest: Manifest) -> tuple[NDArray[Any], Problem]:
    if kind == "words":
        model = empty_words(manifest.bits)
        words = data.view(model.dtype).reshape(len(model), entry.rows)
        return words, spare_bits_problem(words, manifest.bits)
    if kind == "vectors":
        assert manifest.vectors is not None
        name, width = manifest.vectors
        vectors = data.view(np.dtype(name).newbyteorder("<")).reshape(entry.rows, width)
        return vectors, finite_problem(vectors.ravel())
    ids = data.view("<i8")
    return ids, order_problem(ids)


def _alive_rows(data: NDArray[np.uint8], rows: int, extent: Extent, name: str, path: Path) -> NDArray[np.bool_]:
    """Removed rows are always read, so they are always checked."""
    if zlib.crc32(data.data) != extent.crc:
        raise CodesError(f"{path} is damaged: the {name} do not match their checksum.")
    try:
        alive = decode_removed(data, rows)
    except ValueError as error:
        raise CodesError(f"{path} is damaged: of the {name} {error}.") from None
    alive.flags.writeable = False
    return alive


def read_state(handle: FileIO, path: Path, arrays: StoredArrays, verify: bool | None) -> StoredIndex:
    """The newest state of an open file; ``verify`` None: compare checksums if that is little work."""
    header = read_header(handle, path)
    manifest = read_manifest(handle, header.slot, path)
    if verify is None or header.from_twin:
        verify = header.from_twin or manifest.array_bytes <= VERIFIED_BYTES
    segments = arrays.load(handle, 0, header.slot, manifest, path, verify)
    return StoredIndex(manifest.bits, manifest.metadata, segments, header.slot)


def checked_segments(segments: Sequence[Segment], bits: int, known: StoredArrays) -> tuple[Segment, ...]:
    """The segments that are not empty; rejected if one does not have codes of this many bits."""
    model = empty_words(bits)
    vector_kind(segments)
    for segment in segments:
        words = segment.words
        ids = segment.ids
        alive = segment.alive
        if words.dtype != model.dtype or words.ndim != 2 or len(words) != len(model):
            raise CodesError(
                f"Segments of {bits} bits hold {model.dtype.name} words of shape [{len(model)}, rows], "
                f"got {words.dtype} of shape {list(words.shape)}."
            )
        if isinstance(ids, int):
            if not -LARGEST_ID - 1 <= ids <= LARGEST_ID - max(segment.rows, 1) + 1:
                raise CodesError(f"The ids of a segment must fit into 64 bits with a sign, got {ids} and those after.")
        elif ids.dtype != np.int64 or ids.shape != (segment.rows,):
            raise CodesError(f"A segment of {segment.rows} rows needs as many int64 ids, got {ids.dtype} {ids.shape}.")
        elif known.extent_of(ids) is None and not is_ascending(ids):
            raise CodesError("The ids of a segment must be in ascending order, each one given once.")
        if alive is not None and (alive.dtype != np.bool_ or alive.shape != (segment.rows,)):
            raise CodesError(f"A mask of {segment.rows} rows needs as many booleans, got {alive.dtype} {alive.shape}.")
    return tuple(segment for segment in segments if len(segment))


# Ids that are compared at once, so that memory does not grow with the file.
_AT_ONCE = 1 << 22


def repeated_id(segments: Sequence[Segment]) -> int | None:
    """An id that two segments have and have not removed; None if there is none. Each segment must be in order."""
    for group in _overlapping(segments):
        for ids in _windows(group):
            repeated = ids[1:][ids[1:] == ids[:-1]]
            if repeated.size:
                return int(repeated[0])
    return None


def _overlapping(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Groups of segments whose id ranges overlap; most segments have separate ranges and are left out."""
    spans = sorted((_id_at(one, 0), _id_at(one, one.rows - 1), place) for place, one in enumerate(segments))
    group: list[Segment] = []
    end = 0
    for first, last, place in spans:
        if group and first > end:
            if len(group) > 1:
                yield group
            group = []
        end = max(end, last) if group else last
        group.append(segments[place])
    if len(group) > 1:
        yield group


def _windows(segments: Sequence[Segment]) -> Iterator[NDArray[np.int64]]:
    """The ids of all segments that are not removed, sorted, in parts from one limit to the next."""
    step = max(1, _AT_ONCE // len(segments))
    marks = np.sort(np.concatenate([one.ids_of(np.arange(0, one.rows, step)) for one in segments]))[:: len(segments)]
    starts = [_rows_before(one, marks) for one in segments]
    for window in range(len(marks)):
        parts = []
        for one, rows in zip(segments, starts, strict=True):
            numbers = np.arange(rows[window], rows[window + 1])
            alive = numbers if one.alive is None else numbers[one.alive[rows[window] : rows[window + 1]]]
            parts.append(one.ids_of(alive))
        yield np.sort(np.concatenate(parts), kind="stable")  # which merges parts that are in order


def _rows_before(segment: Segment, marks: NDArray[np.int64]) -> list[int]:
    """The number of ids below each mark, followed by the total number."""
    if isinstance(segment.ids, int):
        below = [min(max(mark - segment.ids, 0), segment.rows) for mark in marks.tolist()]
    else:
        below = np.searchsorted(segment.ids, marks).tolist()
    return [*below, segment.rows]


def _id_at(segment: Segment, row: int) -> int:
    return int(segment.ids_of(np.array([row]))[0])
