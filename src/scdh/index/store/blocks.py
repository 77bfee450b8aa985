"""The arrays of a file in blocks of 1 MB, each compared with its checksum when it is first read.

A large file is opened without reading it, so its codes cannot be compared then; a search that reads all of them can
compare them on the way, which XXH3 does faster than disks deliver. A forged file can have correct checksums, so spare
bits of codes and the order of ids are checked too.
"""

import mmap
import os
import zlib
from collections.abc import Callable
from functools import cache, partial
from io import FileIO
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.kernels.distances import word_columns
from scdh.index.kernels.threads import run
from scdh.index.store.format import ALIGNMENT, BLOCK_BYTES, Extent, Path, Slot


class MappedFile:
    """One state of a file, from byte ``start`` on.

    A program that copies another file over this one (``cp``) truncates the map, and reading beyond the end of a
    truncated file crashes the process. So the length and the manifest are compared before each use; the other file has
    its manifest elsewhere.
    """

    def __init__(self, handle: FileIO, start: int, slot: Slot, path: Path) -> None:
        self._base = start - start % mmap.ALLOCATIONGRANULARITY
        self._map = mmap.mmap(handle.fileno(), slot.end - self._base, access=mmap.ACCESS_READ, offset=self._base)
        self._raw = np.frombuffer(self._map, np.uint8)
        self._end, self._path = slot.end, path
        self._manifest = self._raw[slot.manifest_at - self._base :][: slot.manifest_bytes].data
        self._digest = xxhash.xxh3_64_intdigest(self._manifest)

    def view(self, extent: Extent) -> NDArray[np.uint8]:
        at = extent.at - self._base
        return self._raw[at : at + extent.bytes]

    def check_unchanged(self) -> None:
        """Reject a file that has become shorter, or has another manifest at that place."""
        if self._map.size() < self._end or xxhash.xxh3_64_intdigest(self._manifest) != self._digest:
            raise CodesError(
                f"{self._path} was overwritten while it was open; load it again (and replace files by renaming, as "
                "save and `mv` do, not by `cp`)."
            )


def read_copy(handle: FileIO, extent: Extent, path: Path) -> NDArray[np.uint8]:
    """The bytes of an array in memory, at a multiple of 64 as in the file."""
    room = np.empty(extent.bytes + ALIGNMENT, np.uint8)
    skipped = -room.ctypes.data % ALIGNMENT
    copy = room[skipped : skipped + extent.bytes]
    os.lseek(handle.fileno(), extent.at, os.SEEK_SET)
    done = 0
    while done < len(copy):
        count = handle.readinto(copy[done:].data)
        if not count:
            raise CodesError(f"{path} was cut short while it was read.")
        done += count
    copy.flags.writeable = False
    return copy


# Blocks per task: enough work for a thread, few enough to divide a file of 64 MB.
_TASK_BLOCKS = 16
# Rows whose blocks are looked up at once, so that a filter of millions of rows takes little memory.
_ROWS_AT_ONCE = 1 << 20

Problem = Callable[[int, int], str | None]  # what is wrong with the bytes from … to of an array


class ArrayBlocks:
    """The guard of one array.

    Args:
        data: uint8 [bytes], the array.
        rows: of the segment; the array has as many columns, and one or more rows of them.
        extent: its place in the file, with its checksums.
        find_problem: checks the values of a part whose checksum is correct.
        name: name of the array in messages.
        path: of the file.
        file: where ``data`` is mapped; None if it is a copy in memory.
        is_by_row: whether a row is contiguous, as for vectors; the words of a code are columns.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        rows: int,
        extent: Extent,
        find_problem: Problem,
        name: str,
        path: Path,
        file: MappedFile | None,
        *,
        is_by_row: bool = False,
    ) -> None:
        self._data = data
        self._rows = rows
        self._extent = extent
        self._file = file
        self._find_problem = find_problem
        self._name = name
        self._path = path
        self._is_by_row = is_by_row
        self._sums = np.frombuffer(extent.sums, "<u8") if extent.sums else None
        self._checked = np.zeros(-(-len(data) // BLOCK_BYTES), np.bool_)
        self.is_checked = False  # all of it

    def check(self, rows: NDArray[Any] | None = None) -> None:
        """Reject damage in the blocks of these rows that were not checked yet."""
        self.check_unchanged()
        if not self.is_checked:
            self._check_blocks(np.flatnonzero(~self._checked & self._blocks_of(rows)))
            self.is_checked = bool(self._checked.all())

    def check_unchanged(self) -> None:
        if self._file is not None:
            self._file.check_unchanged()

    def _check_blocks(self, blocks: NDArray[np.intp]) -> None:
        parts = [blocks[start : start + _TASK_BLOCKS] for start in range(0, len(blocks), _TASK_BLOCKS)]
        for _ in run([partial(self._check_some, part) for part in parts]):
            pass

    def _check_some(self, blocks: NDArray[np.intp]) -> None:
        for block in blocks.tolist():
            start, stop = block * BLOCK_BYTES, min((block + 1) * BLOCK_BYTES, len(self._data))
            if self._sums is not None:
                is_right = xxhash.xxh3_64_intdigest(self._data[start:stop].data) == int(self._sums[block])
            else:  # small arrays have one block
                is_right = zlib.crc32(self._data.data) == self._extent.crc
            if not is_right:
                raise self._mismatch()
            problem = self._find_problem(start, stop)
            if problem is not None:
                raise CodesError(f"{self._path} is damaged: of the {self._name} {problem}.")
            self._checked[block] = True

    def _mismatch(self) -> CodesError:
        return CodesError(f"{self._path} is damaged: the {self._name} do not match their checksum.")

    def _blocks_of(self, rows: NDArray[Any] | None) -> NDArray[np.bool_]:
        """Which blocks hold these rows."""
        if rows is None or len(self._checked) == 1:
            return np.ones(len(self._checked), np.bool_)
        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.reshape(-1)
        wanted = np.zeros(len(self._checked), np.bool_)
        item_bytes = len(self._data) // self._rows
        width = min(8, item_bytes)
        for first in range(0, len(numbers), _ROWS_AT_ONCE):
            part = numbers[first : first + _ROWS_AT_ONCE]
            if self._is_by_row:  # a row is shorter than a block, so it is in two at most
                wanted[part * item_bytes // BLOCK_BYTES] = True
                wanted[((part + 1) * item_bytes - 1) // BLOCK_BYTES] = True
                continue
            for word in range(item_bytes // width):
                wanted[(word * self._rows + part) * width // BLOCK_BYTES] = True
        return wanted


def spare_bits_problem(words: NDArray[Any], bits: int) -> Problem:
    """Finds bits that are set beyond those of a code, which would count in distances; ``words`` [words, rows]."""
    spare = ~word_columns(Codes.from_bits(np.ones((1, bits), np.uint8)))[-1, 0]
    last, before = words[-1], (len(words) - 1) * words.shape[1]

    def find(start: int, stop: int) -> str | None:
        part = last[max(0, start // words.itemsize - before) : max(0, stop // words.itemsize - before)]
        if spare and np.bitwise_or.reduce(part, initial=0) & spare:
            return f"some have bits set beyond the {bits} of a code"
        return None

    return find


def order_problem(ids: NDArray[np.int64]) -> Problem:
    """Finds ids that are not larger than the one before; otherwise an id could occur twice."""
    # There may be unread blocks between two that are read, so the first ids of all blocks are compared.
    first_ids_ascend = cache(lambda: is_ascending(ids[:: BLOCK_BYTES // ids.itemsize]))
    problem = "some are not larger than the one before"

    def find(start: int, stop: int) -> str | None:
        part = ids[start // 8 : stop // 8 + 1]  # with the first id of the next block
        return None if is_ascending(part) and first_ids_ascend() else problem

    return find


def finite_problem(values: NDArray[Any]) -> Problem:
    """Finds values that are not finite, which no writer stores; ``values`` of any type, one after the other."""

    def find(start: int, stop: int) -> str | None:
        part = values[start // values.itemsize : stop // values.itemsize]
        return None if np.isfinite(part).all() else "some are not finite"

    return find


def is_ascending(ids: NDArray[np.int64]) -> bool:
    return bool(np.all(ids[1:] > ids[:-1]))
