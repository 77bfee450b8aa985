"""Distances that weigh bits: Σ of a query's weights over the bits in which it differs from an item.

With weights |u|, the sizes of the query's real outputs, a bit that is certain counts more than one close to 0
("asymmetric" distance: real numbers on one side, bits on the other). Items stay bits.

The sum is taken in float64, byte by byte: for each byte first the weights of its upper and of its lower four bits, then
both together, then added to the sum so far. All searches use this order, so distances agree to the last digit. For
float32 outputs whose absolute values differ by less than a factor of 10⁵ the sum is exact in any order.
"""

import numpy as np
from numpy.typing import ArrayLike

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.byte_tables import Floats

# The name of the distance in the definition of a score.
NAME = "the sum of the query's outputs |u| over the bits that differ"


def check_weights(weights: ArrayLike | None, query_codes: Codes) -> Floats:
    """The weights as float64 [q, bits]: finite numbers of at least 0."""
    try:
        values = np.asarray(weights, np.float64)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CodesError(f"Weights must be real numbers [queries, bits], but got other values: {error}.") from None
    wanted = (len(query_codes), query_codes.bits)
    if values.shape != wanted:
        raise CodesError(f"Weights must have shape {list(wanted)}, [queries, bits], got shape {list(values.shape)}.")
    if not np.isfinite(values).all() or (values < 0).any():
        wrong = values[~(np.isfinite(values) & (values >= 0))][0]
        raise CodesError(f"Weights must be finite and at least 0, such as the sizes |u| of real outputs, got {wrong}.")
    if values.size and values.max() > np.finfo(np.float64).max / values.shape[1]:
        raise CodesError(f"The sum of weights must be finite, but one of them is {values.max()}.")
    return values


def weight_tables(query_codes: Codes, weights: Floats) -> Floats:
    """What each value of four bits adds to the distance from each query: float64 [q, 2 · bytes, 16].

    Tables 2b and 2b + 1 are those of the lower and of the upper four bits of byte b.
    """
    packed = query_codes.packed
    padded = np.zeros((len(packed), 8 * packed.shape[1]))
    padded[:, : weights.shape[1]] = weights
    padded = padded.reshape(len(packed), packed.shape[1], 2, 4)  # upper four bits first, and the highest bit first
    own = np.unpackbits(packed, axis=1).reshape(padded.shape)
    values = np.arange(16)
    tables = np.zeros((len(packed), packed.shape[1], 2, 16))
    for bit in range(4):
        differs = own[:, :, :, bit, None] != (values >> (3 - bit) & 1)
        tables += np.where(differs, padded[:, :, :, bit, None], 0.0)
    return np.ascontiguousarray(tables[:, :, ::-1]).reshape(len(packed), 2 * packed.shape[1], 16)
