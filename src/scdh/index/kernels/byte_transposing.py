"""Blocks of codes transposed for ``chunk_distances``, and the tables of the queries that go with them."""

from typing import Any

import numpy as np

from scdh.index.kernels.chunk_distances import CHUNK, GROUP, split_group, way
from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.processor import BYTES
from scdh.index.kernels.wide_vectors import popcount

# Bytes of the planes of a block: most of the first cache.
_BLOCK_BYTES = 24576
_LINE_BYTES = 64


@compiled
def empty_planes(base: Any, nibbles: bool) -> Any:
    """Memory for the planes of a block, uint8 [chunks, planes of a code, 256]."""
    count = base.shape[0] * base.itemsize * (2 if nibbles else 1)
    chunks = max(1, _BLOCK_BYTES // (count * CHUNK))
    return aligned_bytes(chunks * count * CHUNK).reshape((chunks, count, CHUNK))


@compiled
def aligned_bytes(size: int) -> Any:
    """Memory aligned to cache lines: a vector of 64 bytes that crosses two lines is read twice."""
    room = np.empty(size + _LINE_BYTES, np.uint8)
    skipped = -room.ctypes.data % _LINE_BYTES
    return room[skipped : skipped + size]


@compiled
def cut_block(base: Any, start: int, stop: int, planes: Any, nibbles: bool) -> None:
    """Cut rows start … stop − 1 into planes; rows beyond them in the last group are zeros or rows that follow."""
    last_group = np.zeros((base.shape[0], GROUP), base.dtype)
    for first in range(start, stop, GROUP):
        chunk, group = (first - start) // CHUNK, (first - start) % CHUNK // GROUP
        if first + GROUP <= base.shape[1]:
            for word in range(base.shape[0]):
                split_group(base, word, first, planes, chunk, group, nibbles)
        else:
            for word in range(base.shape[0]):
                for row in range(first, base.shape[1]):
                    last_group[word, row - first] = base[word, row]
                split_group(last_group, word, 0, planes, chunk, group, nibbles)


@compiled
def distance_tables(queries: Any, code_bytes: int) -> Any:
    """Tables uint8 [q, planes, 16] of queries [q, words], for codes with this number of bytes."""
    nibbles = way() != BYTES
    tables = np.zeros((queries.shape[0], code_bytes * (2 if nibbles else 1), 16), np.uint8)
    size = queries.itemsize
    for i in range(queries.shape[0]):
        for byte in range(code_bytes):
            value = np.int64(queries[i, byte // size]) >> np.int64(8 * (byte % size)) & 255
            if not nibbles:
                tables[i, byte, 0] = value
                continue
            for bits in range(16):
                tables[i, 2 * byte, bits] = popcount(np.uint64((value & 15) ^ bits))
                tables[i, 2 * byte + 1, bits] = popcount(np.uint64((value >> 4) ^ bits))
    return tables
