"""The arrays of a stored index as views into memory maps: opening reads none of them, searching reads what it needs."""

import mmap
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.index.segments import Segment
from scdh.index.store.format import (
    LARGEST_ID,
    Entry,
    Extent,
    Manifest,
    Path,
    Slot,
    empty_words,
    read_header,
    read_manifest,
)
from scdh.index.store.removed_rows import decode_removed

# Checksums of up to so many bytes are compared at every opening, which takes less than a tenth of a second.
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
        self._extents: dict[int, Extent] = {}

    def extent_of(self, array: NDArray[Any]) -> Extent | None:
        """The place of this array object in the file, if it belongs to the newest state."""
        return self._extents.get(id(array))

    def load(
        self, handle: FileIO, start: int, end: int, manifest: Manifest, path: Path, verify: bool
    ) -> tuple[Segment, ...]:
        """The segments of a manifest; all arrays that are not known yet must be between start and end."""
        base = start - start % mmap.ALLOCATIONGRANULARITY
        # A map keeps a file open, so there is one for all new arrays rather than one for each.
        raw = np.frombuffer(mmap.mmap(handle.fileno(), end - base, access=mmap.ACCESS_READ, offset=base), np.uint8)
        arrays: dict[Extent, NDArray[Any]] = {}
        segments = []
        for number, entry in enumerate(manifest.entries):
            for name, extent in entry.extents():
                if extent in self._arrays:
                    arrays[extent] = self._arrays[extent]
                    continue
                data = raw[extent.at - base : extent.at - base + extent.bytes]
                # Removed rows are always read, so they are always checked.
                if (verify or name == "removed rows") and zlib.crc32(data.data) != extent.crc:
                    raise CodesError(f"{path} is damaged: the {name} of segment {number} do not match their checksum.")
                try:
                    arrays[extent] = _array(data, name, entry, manifest.bits, verify)
                except ValueError as error:
                    raise CodesError(f"{path} is damaged: of the {name} of segment {number} {error}.") from None
            ids = arrays[entry.ids] if isinstance(entry.ids, Extent) else entry.ids
            alive = None if entry.removed is None else arrays[entry.removed]
            segments.append(Segment(arrays[entry.words], ids, alive))
        # At the end, so that a refusal changes nothing.
        self._arrays = arrays
        self._extents = {id(array): extent for extent, array in arrays.items()}
        return tuple(segments)


def _array(data: NDArray[np.uint8], name: str, entry: Entry, bits: int, verify: bool) -> NDArray[Any]:
    if name == "words":
        words = empty_words(bits)
        return data.view(words.dtype).reshape(len(words), entry.rows)
    if name == "ids":
        ids = data.view("<i8")
        if verify and not is_ascending(ids):
            raise ValueError("some are not larger than the one before")
        return ids
    alive = decode_removed(data, entry.rows)
    alive.flags.writeable = False
    return alive


def is_ascending(ids: NDArray[np.int64]) -> bool:
    return bool(np.all(ids[1:] > ids[:-1]))


def read_state(handle: FileIO, path: Path, arrays: StoredArrays, verify: bool | None) -> StoredIndex:
    """The newest state of an open file; ``verify`` None: compare checksums if that is little work."""
    header = read_header(handle, path)
    manifest = read_manifest(handle, header.slot, path)
    if verify is None or header.from_twin:
        verify = header.from_twin or manifest.array_bytes <= VERIFIED_BYTES
    segments = arrays.load(handle, 0, header.slot.end, manifest, path, verify)
    return StoredIndex(manifest.bits, manifest.metadata, segments, header.slot)


def checked_segments(segments: Sequence[Segment], bits: int, known: StoredArrays) -> tuple[Segment, ...]:
    """The segments that are not empty; refused if one does not have codes of this many bits."""
    model = empty_words(bits)
    for segment in segments:
        words, ids, alive = segment.words, segment.ids, segment.alive
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
