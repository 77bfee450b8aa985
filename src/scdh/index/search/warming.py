"""Compiled loops loaded before the first search.

A process otherwise loads them once its searches have done enough work, and some search waits for them.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.index.byte_tables import BYTE_VALUES
from scdh.index.kernels.distances import word_columns
from scdh.index.search import hash_tables, scan, table_sums


def load_loops(bits: int, *, by_tables: bool, rows: int = 0) -> None:
    """Load what searches among ``rows`` codes of ``bits`` bits need: by Hamming distance, or by tables of bytes."""
    if by_tables:
        load_table_loop(bits)
        return
    load_nearest_loops(bits)
    load_other_loops(bits)
    if rows >= hash_tables.FEWEST_ROWS:
        load_look_ups(bits)


def load_nearest_loops(bits: int) -> None:
    """Load what finds the nearest codes."""
    scan.load_nearest(_words(bits))


def load_other_loops(bits: int) -> None:
    """Load what finds the codes within a radius, and what ranks by real outputs."""
    words = _words(bits)
    scan.load_within(words)
    table_sums.load_now(words, np.zeros((1, 2 * -(-bits // 8), 16)))


def load_look_ups(bits: int) -> None:
    """Load what finds near codes among many by hash tables."""
    hash_tables.load_now(_words(bits))


def load_table_loop(bits: int) -> None:
    """Load what ranks codes of ``bits`` bits by tables of bytes."""
    table_sums.load_now(_words(bits), np.zeros((1, -(-bits // 8), BYTE_VALUES)))


def _words(bits: int) -> NDArray[np.unsignedinteger]:
    """A code in the form that indexes of such codes search."""
    return word_columns(Codes(np.zeros((1, -(-bits // 8)), np.uint8), bits))


if __name__ == "__main__":  # compiles them into the cache of this machine, in a process that then ends
    kinds = {
        "nearest": load_nearest_loops,
        "others": load_other_loops,
        "look-ups": load_look_ups,
        "tables": load_table_loop,
    }
    kinds[sys.argv[1]](int(sys.argv[2]))
