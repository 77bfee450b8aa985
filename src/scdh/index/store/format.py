"""The format of an index on disk: one file that describes itself.

| where                  | what                                                                                      |
|------------------------|-------------------------------------------------------------------------------------------|
| byte 0 and byte 4096   | two header slots of 64 bytes; the newest state is the valid slot of higher generation     |
| from byte 8192         | arrays (at multiples of 64, little endian) and manifests, in the order they were committed|
| start of each append   | a copy of the header slot that this commit is about to write: its twin                    |
| the newest slot's end  | bytes beyond it were left by a killed writer and are ignored                              |

A slot holds: 16 bytes magic, uint32 version, uint32 CRC-32 of the manifest, then as uint64 the generation, the
committed end of the file, the manifest's place and its bytes; 4 spare bytes and the CRC-32 of all that. A later version
may change the fields in between, but keeps the magic, the version, the 64 bytes and their CRC. The manifest is JSON:
``bits``, the type of a ``word``, ``metadata``, and for each segment its ``rows``, ``words`` [words, rows], ``ids`` (the
first id, or an int64 array) and ``removed`` (null; or the removed rows as int64 if that is shorter than one bit per
row; otherwise those bits, packed); and ``vectors`` [rows, width] if the items have some, whose ``type`` and ``width``
are then in ``vectors`` of the manifest. An array is written as [place, bytes, CRC-32]. A segment whose ``words`` or
``ids`` take 64 KB or more also has ``sums``: by name of the array the XXH3 (64 bits, little endian, hexadecimal) of
each of its blocks of ``block_bytes``, so that a part of a large array can be checked without reading the rest.

Why two slots and a twin. A commit of generation g makes arrays, manifest and twin durable first, then writes slot
g % 2. The other slot and everything it points to are never touched, so there is always a complete state. A slot that
does not match its checksum was either torn by a power cut (before the commit was acknowledged) or damaged later (after
it); using the other slot would lose a commit in the second case. In both cases the twin is durable, so it is used.
"""

import builtins
import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import FileIO
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.codes.vectors import MOST_WIDTH
from scdh.errors import CodesError
from scdh.index.kernels.distances import word_columns

MAGIC = b"scdh-index\r\n\x1a\n\0\0"  # line ends, which reveal that a file was copied as text
VERSION = 1
SLOT_BYTES = 64
SLOTS_AT = (0, 4096)  # in pages of their own, so that no write of one touches the other
BODY_AT = 8192
ALIGNMENT = 64
_SLOT = struct.Struct("<16sIIQQQQ4x")
# Arrays are checked in blocks of this size; those below the other size have a CRC-32 only.
BLOCK_BYTES = 1 << 20
SUMMED_BYTES = 1 << 16
_SUMMED = ("words", "ids", "vectors")  # removed rows are always read as a whole
LARGEST_ID = np.iinfo(np.int64).max

Path = str | os.PathLike[str]


class Extent(NamedTuple):
    """The place of an array in the file; ``sums`` are the checksums of its blocks, 8 bytes each, or none."""

    at: int
    bytes: int
    crc: int
    sums: builtins.bytes = b""

    def place(self) -> tuple[int, int, int]:
        """The form in the manifest."""
        return self.at, self.bytes, self.crc


class Entry(NamedTuple):
    """A segment in the manifest."""

    rows: int
    words: Extent
    ids: Extent | int
    removed: Extent | None
    vectors: Extent | None = None

    def encode(self) -> dict[str, Any]:
        parts = {name: part for name, part in self._asdict().items() if name != "vectors" or part is not None}
        places = {name: part.place() if isinstance(part, Extent) else part for name, part in parts.items()}
        sums = {name: extent.sums.hex() for name, extent in self.extents() if extent.sums and name in _SUMMED}
        return places | ({"sums": sums} if sums else {})

    def extents(self) -> list[tuple[str, Extent]]:
        names = ("words", "ids", "removed rows", "vectors")
        parts = zip(names, (self.words, self.ids, self.removed, self.vectors), strict=True)
        return [(name, part) for name, part in parts if isinstance(part, Extent)]


class Slot(NamedTuple):
    """The contents of a header slot."""

    manifest_crc: int
    generation: int
    end: int
    manifest_at: int
    manifest_bytes: int

    def pack(self) -> bytes:
        start = _SLOT.pack(MAGIC, VERSION, *self)
        return start + zlib.crc32(start).to_bytes(4, "little")


class Header(NamedTuple):
    """The slot of the newest state, and which slots are damaged."""

    slot: Slot
    broken: tuple[int, ...]  # the slots that do not match their checksum
    from_twin: bool


@dataclass(frozen=True)
class Manifest:
    bits: int
    metadata: dict[str, str]
    entries: tuple[Entry, ...]
    vectors: tuple[str, int] | None = None  # type and width of those of all items

    @classmethod
    def empty(cls, bits: int, metadata: Mapping[str, str] | None) -> "Manifest":
        """A manifest without segments; rejects bits and metadata that Codes reject."""
        checked = dict(metadata or {})
        empty_words(bits, checked)
        return cls(int(bits), checked, ())

    @property
    def array_bytes(self) -> int:
        return sum(extent.bytes for entry in self.entries for _, extent in entry.extents())

    def encode(self) -> bytes:
        segments = [entry.encode() for entry in self.entries]
        word = empty_words(self.bits).dtype.name
        content = {"bits": self.bits, "word": word, "metadata": self.metadata, "segments": segments}
        blocks = {"block_bytes": BLOCK_BYTES} if any("sums" in segment for segment in segments) else {}
        vectors = {} if self.vectors is None else {"vectors": dict(zip(("type", "width"), self.vectors, strict=True))}
        return json.dumps(content | vectors | blocks).encode()


def empty_words(bits: int, metadata: dict[str, str] | None = None) -> NDArray[Any]:
    """An array [words of a code, 0] as codes of so many bits are stored; wrong bits or metadata are rejected."""
    width = -(-int(bits) // 8) if isinstance(bits, int | np.integer) else 0
    words = word_columns(Codes(np.empty((0, width), np.uint8), bits, metadata=metadata))
    return words.astype(words.dtype.newbyteorder("<"), copy=False)


def read_header(handle: FileIO, path: Path) -> Header:
    """The newest state of the file, which is as long as that state says."""
    # The length is read last, so that a file that is growing never looks truncated.
    slots = [_slot_at(handle, at, path) for at in SLOTS_AT]
    size = os.fstat(handle.fileno()).st_size
    valid = [slot for slot in slots if slot is not None]
    if not valid:
        starts = [_read(handle, at, len(MAGIC)) for at in SLOTS_AT]
        if not any(start and MAGIC.startswith(start) for start in starts) and size > 0:
            if b'"scdh-codes"' in _read(handle, 0, BODY_AT):
                raise CodesError(f"{path} is not a scdh-index file but one of scdh-codes; `scdh index` makes an index.")
            raise CodesError(f"{path} is not a scdh-index file: it does not begin with 'scdh-index'.")
        if size < BODY_AT:
            raise CodesError(f"{path} is cut short: at least {BODY_AT} bytes were expected, but {size} were found.")
        raise CodesError(f"{path} is damaged: neither of its two headers matches its checksum.")
    newest = max(valid, key=lambda slot: slot.generation)
    if size < newest.end:
        raise CodesError(f"{path} is cut short: its header promises {newest.end} bytes, but {size} bytes were found.")
    broken = tuple(i for i, slot in enumerate(slots) if slot is None)
    if not broken or size == newest.end:
        return Header(newest, broken, False)
    twin = _slot_at(handle, aligned(newest.end), path)
    if twin is None or twin.generation != newest.generation + 1 or twin.end > size:
        # No interrupted write causes this, so it is damage; using the older state could lose a commit.
        raise CodesError(f"{path} is damaged: header {broken[0]} of 2 does not match its checksum, nor does its copy.")
    return Header(twin, broken, True)


def read_manifest(handle: FileIO, slot: Slot, path: Path) -> Manifest:
    """The manifest of a state, with every number checked."""
    check_not_sparse(handle, slot.manifest_bytes, path)
    text = _read(handle, slot.manifest_at, slot.manifest_bytes)
    if len(text) != slot.manifest_bytes or zlib.crc32(text) != slot.manifest_crc:
        raise CodesError(
            f"{path} is damaged: the {slot.manifest_bytes} bytes of its manifest at byte {slot.manifest_at} "
            "do not match their checksum."
        )
    try:
        data = json.loads(text)
        if not isinstance(data["metadata"], dict):
            raise ValueError(f"its metadata are {data['metadata']!r}")
        words = empty_words(data["bits"], data["metadata"])
        if data["word"] != words.dtype.name:
            raise ValueError(f"codes of {data['bits']} bits are words of {words.dtype.name}, not {data['word']!r}")
        vectors = _vectors(data)
        bytes_of_vector = 0 if vectors is None else vectors[1] * np.dtype(vectors[0]).itemsize
        entries = tuple(
            _checked_entry(number, entry, words, bytes_of_vector, slot.end)
            for number, entry in enumerate(data["segments"])
        )
        if any("sums" in entry for entry in data["segments"]) and data["block_bytes"] != BLOCK_BYTES:
            raise ValueError(f"its blocks have {data['block_bytes']!r} bytes, not {BLOCK_BYTES}")
        extents = sorted(extent.place() for entry in entries for _, extent in entry.extents())
        if any(at + size > after[0] for (at, size, _), after in pairwise(extents)):
            # Also against bombs: otherwise a small file could have any number of rows.
            raise ValueError("two arrays are at the same place")
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError, RecursionError) as error:
        raise CodesError(f"{path} is damaged: its manifest makes no sense ({error}).") from None
    return Manifest(data["bits"], data["metadata"], entries, vectors)


def _vectors(data: dict[str, Any]) -> tuple[str, int] | None:
    if "vectors" not in data:
        return None
    kind, width = data["vectors"]["type"], data["vectors"]["width"]
    if kind not in ("int8", "float16") or type(width) is not int or not 1 <= width <= MOST_WIDTH:
        raise ValueError(f"its vectors are {width!r} numbers of type {kind!r}")
    return kind, width


def _checked_entry(number: int, data: dict[str, Any], words: NDArray[Any], bytes_of_vector: int, end: int) -> Entry:
    rows = data["rows"]
    ids = data["ids"]
    removed = data["removed"]
    sums = {name: bytes.fromhex(text) for name, text in data.get("sums", {}).items()}
    if type(rows) is not int or rows < 1:
        raise ValueError(f"segment {number} has {rows!r} rows")
    entry = Entry(
        rows,
        _extent(data["words"], sums.get("words", b"")),
        ids if type(ids) is int else _extent(ids, sums.get("ids", b"")),
        None if removed is None else _extent(removed),
        _extent(data["vectors"], sums.get("vectors", b"")) if bytes_of_vector else None,
    )
    for name, extent in entry.extents():
        at, size, _ = place = extent.place()
        if any(type(value) is not int for value in place) or at % ALIGNMENT or not BODY_AT <= at <= at + size <= end:
            raise ValueError(f"the {name} of segment {number} are outside of the file's {end} bytes")
        has_sums = size >= SUMMED_BYTES and name in _SUMMED
        if len(extent.sums) != (8 * -(-size // BLOCK_BYTES) if has_sums else 0):
            raise ValueError(f"the {name} of segment {number} have {len(extent.sums)} bytes of checksums")
    if entry.words.bytes != rows * len(words) * words.itemsize:
        raise ValueError(f"the words of segment {number} take {entry.words.bytes} bytes for {rows} rows")
    if entry.vectors is not None and entry.vectors.bytes != rows * bytes_of_vector:
        raise ValueError(f"the vectors of segment {number} take {entry.vectors.bytes} bytes for {rows} rows")
    if isinstance(entry.ids, Extent):
        if entry.ids.bytes != 8 * rows:
            raise ValueError(f"the ids of segment {number} take {entry.ids.bytes} bytes for {rows} rows")
    elif not -LARGEST_ID - 1 <= entry.ids <= LARGEST_ID - rows + 1:
        raise ValueError(f"segment {number} has {rows} ids from {entry.ids} on")
    bits = -(-rows // 8)
    if entry.removed and entry.removed.bytes != bits and entry.removed.bytes not in range(8, bits, 8):
        raise ValueError(f"the removed rows of segment {number} take {entry.removed.bytes} bytes for {rows} rows")
    return entry


def _extent(place: list[int], sums: bytes = b"") -> Extent:
    at, size, crc = place
    return Extent(at, size, crc, sums)


class Pen:
    """Writes arrays one after the other, each at a multiple of 64."""

    def __init__(self, handle: FileIO, at: int) -> None:
        self._handle, self._at = handle, at

    def put(self, data: NDArray[Any] | bytes) -> Extent:
        at = aligned(self._at)
        crc = 0
        sums = []
        view = memoryview(data.data if isinstance(data, np.ndarray) else data).cast("B")
        # Block by block, so that the bytes are in the cache for both checksums and for the write.
        for start in range(0, len(view), BLOCK_BYTES):
            block = view[start : start + BLOCK_BYTES]
            crc = zlib.crc32(block, crc)
            if len(view) >= SUMMED_BYTES:
                sums.append(xxhash.xxh3_64_intdigest(block).to_bytes(8, "little"))
            write_at(self._handle, at + start, block)
        self._at = at + len(view)
        return Extent(at, len(view), crc, b"".join(sums))

    def finish(self, manifest: Manifest, generation: int) -> Slot:
        """Write the manifest; the caller writes the slot that refers to it."""
        at, size, crc = self.put(manifest.encode()).place()
        return Slot(crc, generation, at + size, at, size)


def write_at(handle: FileIO, at: int, data: memoryview | bytes) -> None:
    os.lseek(handle.fileno(), at, os.SEEK_SET)
    view = memoryview(data)
    while len(view):
        view = view[os.write(handle.fileno(), view) :]


def aligned(at: int) -> int:
    return -(-at // ALIGNMENT) * ALIGNMENT


def _slot_at(handle: FileIO, at: int, path: Path) -> Slot | None:
    raw = _read(handle, at, SLOT_BYTES)
    if len(raw) < SLOT_BYTES or not raw.startswith(MAGIC) or zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
        return None
    _, version, *rest = _SLOT.unpack(raw[:-4])
    if version != VERSION:
        raise CodesError(f"{path} is a scdh-index file of version {version}, but only version {VERSION} can be read.")
    slot = Slot(*rest)
    return slot if BODY_AT <= slot.manifest_at <= slot.manifest_at + slot.manifest_bytes <= slot.end else None


def _read(handle: FileIO, at: int, size: int) -> bytes:
    handle.seek(at)
    return handle.read(size) or b""


# Up to this much memory is allocated without checking the disk.
_UNCHECKED_BYTES = 64 << 20
# Runs of zeros can be sparse in valid files too, if the file system compresses; memory stays within this ratio.
_MOST_RATIO = 8


def check_not_sparse(handle: FileIO, needed: int, path: Path) -> None:
    """Raise ``CodesError`` if opening a file takes ``needed`` bytes of memory, but it has far fewer bytes on disk.

    A sparse file of a few kilobytes can claim any size, and with it any amount of memory.
    """
    if needed <= _UNCHECKED_BYTES:
        return
    found = _allocated_bytes(handle, -(-needed // _MOST_RATIO))
    if found * _MOST_RATIO < needed:
        size = os.fstat(handle.fileno()).st_size
        raise CodesError(
            f"{path} is rejected as a sparse file: opening it needs {needed} bytes of memory, but only {found} of its "
            f"{size} bytes are on disk."
        )


def _allocated_bytes(handle: FileIO, enough: int) -> int:
    """The bytes on disk, counted until there are ``enough``; the whole size if the system cannot report it."""
    size = os.fstat(handle.fileno()).st_size
    at = 0
    total = 0
    if not hasattr(os, "SEEK_DATA"):
        return size
    while at < size and total < enough:
        try:
            start = os.lseek(handle.fileno(), at, os.SEEK_DATA)
            at = os.lseek(handle.fileno(), start, os.SEEK_HOLE)
        except OSError:  # the rest of the file is not on disk
            break
        total += at - start
    return total


def encode_removed(alive: NDArray[np.bool_]) -> NDArray[Any]:
    """The removed rows as int64 or as packed bits, whichever is shorter; ``decode_removed`` decides by the length."""
    is_removed = ~alive
    as_numbers = 8 * np.count_nonzero(is_removed) < -(-len(is_removed) // 8)
    return np.flatnonzero(is_removed).astype("<i8", copy=False) if as_numbers else np.packbits(is_removed)


def decode_removed(data: NDArray[np.uint8], rows: int) -> NDArray[np.bool_]:
    if len(data) == -(-rows // 8):
        return np.unpackbits(data, count=rows) == 0
    removed = data.view("<i8")
    if not np.all((removed >= 0) & (removed < rows)):
        raise ValueError(f"some row numbers are outside of {rows} rows")
    alive = np.ones(rows, dtype=np.bool_)
    alive[removed] = False
    return alive
