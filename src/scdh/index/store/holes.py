"""Files with holes: a few kilobytes on disk can claim any size, and with it any amount of memory."""

import os
from io import FileIO

from scdh.errors import CodesError

# So much memory is taken without a look at the disk.
_UNSUSPICIOUS_BYTES = 64 << 20
# Zeros may be holes in honest files too, where the file system compresses; memory stays within this ratio of the rest.
_MOST_RATIO = 8


def refuse_bomb(handle: FileIO, needed: int, path: str | os.PathLike[str]) -> None:
    """Refuse to take ``needed`` bytes of memory for a file that has far fewer bytes on disk."""
    if needed <= _UNSUSPICIOUS_BYTES:
        return
    found = _data_bytes(handle, -(-needed // _MOST_RATIO))
    if found * _MOST_RATIO < needed:
        size = os.fstat(handle.fileno()).st_size
        raise CodesError(
            f"{path} is refused: to open it would take {needed} bytes of memory, but of its {size} bytes all except "
            f"{found} are holes, as no writer of indexes leaves them."
        )


def _data_bytes(handle: FileIO, enough: int) -> int:
    """The bytes that are no holes, counted until there are enough; all, where the system does not tell."""
    size, at, total = os.fstat(handle.fileno()).st_size, 0, 0
    if not hasattr(os, "SEEK_DATA"):
        return size
    while at < size and total < enough:
        try:
            start = os.lseek(handle.fileno(), at, os.SEEK_DATA)
            at = os.lseek(handle.fileno(), start, os.SEEK_HOLE)
        except OSError:  # a hole up to the end
            break
        total += at - start
    return total
