"""The bytes of a file: copied to memory where they are few, mapped where they are many."""

import mmap
import os
from io import FileIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.index.store.format import ALIGNMENT, Extent, Path, Slot


class MappedFile:
    """One state of a file, from byte ``start`` on.

    A program that copies another file over this one (``cp``) cuts the map, and to read beyond the end of a cut file
    ends the process. So before each use the length is compared, and the manifest, which the other file has elsewhere.
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
        """Reject a file that is shorter now, or has another manifest at that place."""
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
