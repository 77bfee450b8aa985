"""How the removed rows of a segment are stored."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_removed(alive: NDArray[np.bool_]) -> NDArray[Any]:
    """The removed rows as int64 or as packed bits, whichever is shorter; ``decode_removed`` tells them by length."""
    is_removed = ~alive
    as_numbers = 8 * np.count_nonzero(is_removed) < -(-len(is_removed) // 8)
    return np.flatnonzero(is_removed).astype("<i8", copy=False) if as_numbers else np.packbits(is_removed)


def decode_removed(data: NDArray[np.uint8], rows: int) -> NDArray[np.bool_]:
    if len(data) == -(-rows // 8):
        return np.unpackbits(data, count=rows) == 0
    removed = data.view("<i8")
    if not np.all((removed >= 0) & (removed < rows)):
        raise ValueError(f"some row numbers are outside of {rows} rows")
    alive = np.ones(rows, dtype=np.bool_)
    alive[removed] = False
    return alive
