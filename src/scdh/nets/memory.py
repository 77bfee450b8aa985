"""Keep freed memory inside the process while a network runs on the CPU.

glibc hands every freed large block back to the system, and the next tensor of that size is paid for again, page by
page. Activations are such blocks, freed and taken at every layer: with efficientnet_lite0 a training step is 1.4 times
as fast when glibc keeps and reuses them, which the two settings below make it do.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of glibc's mallopt(3)


def keep_freed_memory() -> bool:
    """Tell glibc to reuse large blocks; says whether it listened (other systems have other allocators)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
