"""Codes and queries in the form of ``triples``: tables of blocks of codes, and the offsets of queries in them."""

from typing import Any

import numpy as np

from scdh.index.kernels.bit_transposing import transpose_word
from scdh.index.kernels.byte_transposing import aligned_bytes
from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.sliced import GROUP as ROWS
from scdh.index.kernels.sliced import LANES
from scdh.index.kernels.triples import (
    BUNCH_BYTES,
    DIGITS,
    MOST_LIMIT,
    OFFSETS,
    TRIPLES,
    VECTOR_BYTES,
    WORD,
    make_tables,
)

# Bytes of the tables of several blocks: those of 256 bits and 512 codes. They are read from the second cache as well as
# from the first.
_TABLE_BYTES = 16 * BUNCH_BYTES


@compiled
def empty_slices(base: Any, code_bytes: int) -> Any:
    """Room for tables uint8 [blocks, bunches, bytes of a bunch], and for a word of a block."""
    bunches = (code_bytes + 1) // 2
    blocks = max(1, _TABLE_BYTES // (bunches * BUNCH_BYTES))
    tables = aligned_bytes(blocks * bunches * BUNCH_BYTES).reshape((blocks, bunches, BUNCH_BYTES))
    return tables, aligned_rows(64, LANES), np.zeros(ROWS, base.dtype)


@compiled
def aligned_rows(count: int, width: int) -> Any:
    """Room for uint64 [count, width]."""
    return aligned_bytes(8 * count * width).view(np.uint64).reshape((count, width))


@compiled
def slice_blocks(base: Any, start: int, stop: int, room: Any) -> None:
    """Make the tables of rows start … stop − 1; what they have beyond them in the last block is of no use."""
    tables, bits, last_words = room
    bunches = tables.shape[1]
    for first in range(start, stop, ROWS):
        rows, block = base.shape[1] - first, (first - start) // ROWS
        for word in range((bunches + WORD - 1) // WORD):
            if rows >= ROWS:
                transpose_word(base, word, first, bits)
            else:
                for row in range(rows):
                    last_words[row] = base[word, first + row]
                transpose_word(last_words.reshape((1, ROWS)), 0, 0, bits)
            make_tables(bits, tables, block, WORD * word, min(WORD, bunches - WORD * word))


@compiled
def table_offsets(queries: Any, code_bytes: int) -> Any:
    """Offsets uint16 [q, bunches, 11] in a bunch's vectors of queries [q, words] whose codes have so many bytes."""
    bunches, size = (code_bytes + 1) // 2, queries.itemsize
    offsets = np.zeros((queries.shape[0], bunches, OFFSETS), np.uint16)
    for i in range(queries.shape[0]):
        for byte in range(code_bytes):
            value = np.int64(queries[i, byte // size]) >> np.int64(8 * (byte % size)) & 255
            offsets[i, byte // 2, 0] |= np.uint16(value << np.int64(8 * (byte % 2)))
        for bunch in range(bunches):
            value = np.int64(offsets[i, bunch, 0])
            for nth in range(TRIPLES):
                triple = value >> np.int64(3 * nth) & 7
                is_odd = (triple ^ triple >> 1 ^ triple >> 2) & 1
                offsets[i, bunch, 2 * nth] = VECTOR_BYTES * is_odd
                offsets[i, bunch, 2 * nth + 1] = VECTOR_BYTES * (2 + triple)
            offsets[i, bunch, 2 * TRIPLES] = VECTOR_BYTES * (value >> np.int64(3 * TRIPLES))
    return offsets


@compiled
def start_digits() -> Any:
    """For each limit the digits of 2^digits − limit, int64 [limits, digits], as 0 or −1."""
    digits = np.empty((MOST_LIMIT + 1, DIGITS), np.int64)
    for limit in range(MOST_LIMIT + 1):
        for digit in range(DIGITS):
            digits[limit, digit] = -(MOST_LIMIT - limit >> digit & 1)
    return digits
