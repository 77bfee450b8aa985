"""The nearest codes of many queries by the tables of ``triples``, after the first rows.

The first rows are compared as ``scanning`` does: most of them are candidates at first, and each lowers the limit of its
query. Later hardly any row of a block is, so blocks with a candidate are recorded for all queries and examined
afterwards.
"""

from functools import cache
from typing import Any

import numpy as np
from numba.core.registry import cpu_target

from scdh.index.kernels import processor
from scdh.index.kernels.bit_transposing import chunks_with_zeros, rows_of_chunk, transpose_word
from scdh.index.kernels.byte_transposing import aligned_bytes
from scdh.index.kernels.candidates import LIMIT, candidates_so_far, offer, take_best
from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.scanning import nearest_in_words
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
    find_below,
    make_tables,
)
from scdh.index.kernels.wide_vectors import CHUNK, lowest_bit, popcount, prefetch

# Bytes of the tables of several blocks: those of 256 bits and 512 codes. They are read from the second cache as well as
# from the first.
_TABLE_BYTES = 16 * BUNCH_BYTES


@compiled
def empty_slices(base: Any, code_bytes: int) -> Any:
    """Memory for tables uint8 [blocks, bunches, bytes of a bunch], and for a word of a block."""
    bunches = (code_bytes + 1) // 2
    blocks = max(1, _TABLE_BYTES // (bunches * BUNCH_BYTES))
    tables = aligned_bytes(blocks * bunches * BUNCH_BYTES).reshape((blocks, bunches, BUNCH_BYTES))
    return tables, aligned_rows(64, LANES), np.zeros(ROWS, base.dtype)


@compiled
def aligned_rows(count: int, width: int) -> Any:
    """Memory for uint64 [count, width]."""
    return aligned_bytes(8 * count * width).view(np.uint64).reshape((count, width))


@compiled
def slice_blocks(base: Any, start: int, stop: int, room: Any) -> None:
    """Make the tables of rows start … stop − 1; the rest of the last block is not used."""
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
    """Offsets uint16 [q, bunches, 11] in a bunch's vectors of queries [q, words], for codes of so many bytes."""
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


# Rows that are compared by ``scanning`` (at least, and per hit), and rows that must be left for this way.
_ROWS_BEFORE = 4096
_ROWS_BEFORE_A_HIT = 64
_FEWEST_ROWS = 8192


@cache
def is_fastest() -> bool:
    """Whether this way is the fastest on the target processor."""
    return processor.way_for_many(cpu_target.target_context) == processor.SLICED


def first_row(rows: range, k: int) -> int:
    """The first row that is compared in this way; the end if there is none."""
    first = rows.start + max(_ROWS_BEFORE, _ROWS_BEFORE_A_HIT * k)
    return first if rows.stop - first >= _FEWEST_ROWS else rows.stop


@compiled
def nearest_of_more(
    base: Any,
    queries: Any,
    first: int,
    last: int,
    bits: int,
    code_bytes: int,
    allowed: Any,
    best_rows: Any,
    best_distances: Any,
    counts: Any,
) -> None:
    """Compare rows first … last − 1, after ``nearest`` has found the best ``counts`` of those before."""
    k = best_rows.shape[1]
    found = candidates_so_far(best_rows, best_distances, counts, bits)
    rows, distances, at_distance, states = found
    room = empty_slices(base, code_bytes)
    offsets = table_offsets(queries, code_bytes)
    starts = start_digits()
    most_blocks = room[0].shape[0]
    line_rows = 64 // base.itemsize
    lines_a_query = (most_blocks * ROWS // line_rows * base.shape[0] + queries.shape[0] - 1) // queries.shape[0]
    masks, near = aligned_rows(most_blocks * queries.shape[0] + 1, 2 * LANES), np.empty(CHUNK, np.int32)
    for start in range(first, last, most_blocks * ROWS):
        stop = min(last, start + most_blocks * ROWS)
        slice_blocks(base, start, stop, room)
        blocks, count = (stop - start + ROWS - 1) // ROWS, 0
        word, column = 0, stop
        for i in range(queries.shape[0]):
            for _ in range(lines_a_query):
                prefetch(base, word, column)
                column += line_rows
                if column >= stop + most_blocks * ROWS:
                    word, column = min(word + 1, base.shape[0] - 1), stop
            limit = states[i, LIMIT]
            if limit > MOST_LIMIT:
                nearest_in_words(base, queries, i, start, stop, k, allowed, found)
            elif limit > 0:
                count = find_below(room[0], blocks, offsets, i, starts, limit, masks, count)
        for nth in range(count):
            i, block_at = int(masks[nth, LANES]), start + np.int64(masks[nth, LANES + 1]) * ROWS
            chunks = chunks_with_zeros(masks[nth])
            while chunks:
                chunk = lowest_bit(chunks)
                chunks &= chunks - np.uint64(1)
                at, mask = block_at + CHUNK * chunk, np.uint64(0)
                rest = ~rows_of_chunk(masks[nth], chunk)
                if at + CHUNK > stop:
                    rest &= ~(~np.uint64(0) << np.uint64(max(0, stop - at)))
                while rest:
                    place = lowest_bit(rest)
                    rest &= rest - np.uint64(1)
                    d = np.int64(0)
                    for w in range(base.shape[0]):
                        d += np.int64(popcount(base[w, at + place] ^ queries[i, w]))
                    near[place] = d
                    # The limit may be lower now than when the block was compared.
                    mask |= np.uint64(d < states[i, LIMIT]) << np.uint64(place)
                if mask:
                    offer(mask, near, at, k, allowed, rows[i], distances[i], at_distance[i], states[i])
    take_best(found, k, bits, best_rows, best_distances)
