"""Hamming distances of blocks of codes: d(a, b) = popcount(a xor b), summed over the words of a code.

A word is an unsigned number of 8, 16, 32 or 64 bits; a code is one or more of them. Blocks are small on purpose: with
about 2^18 pairs the words of a block stay in the processor's cache, which was twice as fast (measured) as blocks of
millions of pairs, and memory does not depend on the size of the database.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes

BLOCK_PAIRS = 1 << 18


def word_columns(codes: Codes) -> NDArray[Any]:
    """The codes as words [words of a code, n], so that word w of all items is contiguous in memory.

    Codes of up to 32 bits take the smallest word they fit into: half the bytes are nearly half the time.
    """
    words = codes.words()
    if codes.bits <= 32:
        small = np.uint8 if codes.bits <= 8 else np.uint16 if codes.bits <= 16 else np.uint32
        # The first byte is the lowest of its word, so the narrow word keeps all bits.
        words = words.astype(small)
    return np.ascontiguousarray(words.T)


def largest_distance(words: NDArray[Any]) -> int:
    """The largest possible distance between words of this shape, including their spare bits.

    Counters and keys are sized by it rather than by the bits of a code: words come from files, and spare bits that are
    set there must not make a kernel write beyond its arrays.
    """
    return int(words.shape[0]) * 8 * words.itemsize


def distance_type(bits: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds 0…bits and one larger value, which marks a pair that must not count."""
    return np.uint8 if bits < 255 else np.uint16 if bits < 65535 else np.uint32


def hamming(query: NDArray[Any], database: NDArray[Any], bits: int) -> NDArray[Any]:
    """Distances [q, n] between two blocks of ``word_columns``.

    >>> a, b = Codes.from_bits([[1, 0, 1]]), Codes.from_bits([[1, 0, 1], [0, 1, 0]])
    >>> hamming(word_columns(a), word_columns(b), bits=3).tolist()
    [[0, 3]]
    """
    differing = np.bitwise_xor(query[0][:, None], database[0][None, :])
    total = np.bitwise_count(differing).astype(distance_type(bits), copy=False)
    for query_word, database_word in zip(query[1:], database[1:], strict=True):
        np.bitwise_xor(query_word[:, None], database_word[None, :], out=differing)
        total += np.bitwise_count(differing)
    return total


def packed_rows(words: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """The opposite of ``word_columns``: packed bytes [n, ceil(bits/8)] as in ``Codes.packed``."""
    little = words.dtype.newbyteorder("<")
    rows = np.ascontiguousarray(words.T.astype(little, copy=False))
    return rows.view(np.uint8).reshape(words.shape[1], words.shape[0] * words.itemsize)[:, : -(-bits // 8)]
