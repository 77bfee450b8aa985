"""Distances of methods with their own distance: sums of table entries, one for each byte of a code.

Each query has a table of 256 numbers for every byte; an item's distance is the sum of the entries that its bytes name.
Any distance that reads the bytes of a code one by one has this form: the inner product of a real vector with the words
that a product quantiser chose (DQN), or the probability of an item's class (Cls-onehot).

All searches sum in float64, byte after byte, so their distances agree to the last digit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.errors import CodesError

BYTE_VALUES = 256
# Bytes of tables in memory at once; those of one query with thousands of bits take megabytes.
TABLE_BYTES = 1 << 26

Floats = NDArray[np.float64]
# Tables [q, bytes, 256] of all queries, or a function that returns those of a slice of the queries.
ByteTables = ArrayLike | Callable[[slice], ArrayLike]


def queries_at_once(bits: int) -> int:
    """The number of queries whose tables, for codes of ``bits`` bits, are made at once."""
    return max(1, TABLE_BYTES // (-(-bits // 8) * BYTE_VALUES * 8))


def checked_tables(tables: ByteTables, bits: int, count: int) -> Callable[[slice], Floats]:
    """A function that gives the tables of a slice of ``count`` queries, checked: finite, float64 [q, bytes, 256]."""
    if callable(tables):
        make = tables
        return lambda rows: _check(make(rows), bits, len(range(count)[rows]))
    whole = _check(tables, bits, count)
    return lambda rows: whole[rows]


def _check(tables: ArrayLike, bits: int, count: int) -> Floats:
    try:
        values = np.ascontiguousarray(tables, np.float64)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CodesError(f"Tables must be real numbers [queries, bytes, 256], but got other values: {error}.") from None
    wanted = (count, -(-bits // 8), BYTE_VALUES)
    if values.shape != wanted:
        raise CodesError(
            f"Tables must have shape {list(wanted)}, [queries, bytes, 256], got shape {list(values.shape)}."
        )
    # Sums must be finite too, otherwise they cannot rank.
    with np.errstate(over="ignore"):
        is_finite = bool(np.isfinite(np.abs(values).max(2, initial=0.0).sum(1)).all())
    if not is_finite:
        raise CodesError("Tables must hold finite numbers, and so must the sums of their entries.")
    return values


def table_distances(tables: Floats, words: NDArray[Any]) -> Floats:
    """Distances float64 [q, n] of queries with these tables to codes as ``word_columns``.

    Tables are float64 [q, bytes, 256], or [q, 2 · bytes, 16]: those of the lower and the upper four bits of each byte.
    """
    distances = np.zeros((len(tables), words.shape[1]))
    item, has_halves = words.dtype.itemsize, tables.shape[2] != BYTE_VALUES
    for byte in range(tables.shape[1] // (1 + has_halves)):
        values = (words[byte // item] >> words.dtype.type(8 * (byte % item))).astype(np.uint8)
        table = tables[:, byte]
        if has_halves:  # [q, upper, lower]
            both = tables[:, 2 * byte, None, :] + tables[:, 2 * byte + 1, :, None]
            table = both.reshape(len(tables), BYTE_VALUES)
        distances += table[:, values]
    return distances
