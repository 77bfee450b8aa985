"""Search before the first request, so that no request waits for compiled loops.

On a machine that has not compiled them yet, short-lived processes compile them into the machine's cache, and the
service only loads them: the compiler would not free its memory.
"""

import os
import subprocess
import sys

import numpy as np

from scdh.codes import HAMMING, Codes
from scdh.index.byte_tables import BYTE_VALUES
from scdh.serve.snapshot import SearchOptions, Snapshot

BY_TABLES = ("tables",)  # a method with a distance of its own
BY_BITS = ("nearest", "others")
OF_MANY = ("look-ups",)  # for an index of many items in addition


def compile_search(bits: int, kinds: tuple[str, ...]) -> list["subprocess.Popen[bytes]"]:
    """Start the processes that compile these kinds of loops for codes of ``bits`` bits, where the machine can keep
    them."""
    command = [sys.executable, "-P", "-m", "scdh.index.search.warming"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen([*command, kind, str(bits)], env=environment, stderr=subprocess.DEVNULL)
        for kind in kinds
        if _machine_keeps_loops()
    ]


def warm_search(snapshot: Snapshot) -> None:
    """Load what searches of this index will need, and read its codes once."""
    index = snapshot.index
    index.warm_up()
    if not len(index):
        return
    query = Codes(np.zeros((1, -(-index.bits // 8)), np.uint8), index.bits, metadata=index.metadata)
    if query.ranking != HAMMING:
        index.search(query, 10, byte_tables=np.zeros((1, query.packed.shape[1], BYTE_VALUES)))
        return
    snapshot.find(query, SearchOptions(10), [None])
    snapshot.find(query, SearchOptions(10, radius=0), [None])


def _machine_keeps_loops() -> bool:
    from numba.core.caching import NullCache

    from scdh.index.kernels.scanning import nearest

    return not isinstance(nearest._cache, NullCache)
