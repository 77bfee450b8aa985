"""Compiled loops loaded before the first search.

A process otherwise loads them once its searches have done enough work, and some search waits for them.
"""

import sys

import numpy as np

from scdh.codes import Codes
from scdh.index.byte_tables import BYTE_VALUES
from scdh.index.hamming import HammingIndex
from scdh.index.search.loading import wait_for_loads
from scdh.index.search.scan import WORTH_LOADING
from scdh.index.search.table_sums import WORK_OF_A_BYTE

_ROWS = 1 << 18


def load_loops(bits: int, *, by_tables: bool) -> None:
    """Load what searches among codes of ``bits`` bits need: by Hamming distance, or by tables of bytes."""
    if by_tables:
        load_table_loop(bits)
    else:
        load_nearest_loops(bits)
        load_other_loops(bits)


def load_nearest_loops(bits: int) -> None:
    """Load what finds the nearest codes."""
    made_up, queries = _made_up(bits)
    made_up.search(queries, 10, by="scan")
    wait_for_loads()


def load_other_loops(bits: int) -> None:
    """Load what finds the codes within a radius, and what ranks by real outputs."""
    made_up, queries = _made_up(bits)
    made_up.within(queries, 1, by="scan")
    made_up.search(queries, 10, weights=np.ones((len(queries), bits)))
    wait_for_loads()


def load_table_loop(bits: int) -> None:
    """Load what ranks codes of ``bits`` bits by tables of bytes."""
    width = -(-bits // 8)
    rows = max(1024, _ROWS // width)  # the work counts by bytes
    made_up = HammingIndex(Codes(np.zeros((rows, width), np.uint8), bits))
    queries = Codes(np.zeros((1 + WORTH_LOADING // (WORK_OF_A_BYTE * width * rows), width), np.uint8), bits)
    made_up.search(queries, 10, byte_tables=lambda own: np.zeros((own.stop - own.start, width, BYTE_VALUES)))
    wait_for_loads()


def _made_up(bits: int) -> tuple[HammingIndex, Codes]:
    """An index and queries, so many that a search loads its loop."""
    rng = np.random.default_rng(0)
    queries = Codes.from_signs(rng.random((-(-WORTH_LOADING // _ROWS), bits)) < 0.5)
    return HammingIndex(Codes.from_signs(rng.random((_ROWS, bits)) < 0.5)), queries


if __name__ == "__main__":  # compiles them into the cache of this machine, in a process that then ends
    kinds = {"nearest": load_nearest_loops, "others": load_other_loops, "tables": load_table_loop}
    kinds[sys.argv[1]](int(sys.argv[2]))
