"""Real vectors that codes may carry, such as the outputs behind them: rounded rows, compared by cosine.

Cosines do not depend on the length of a row, so each row is scaled before it is rounded: float16 to length 1, int8 so
that its largest value is 127. No scale has to be kept.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes.advice import describe
from scdh.errors import CodesError, unknown_name

VectorKind = Literal["int8", "float16"]
MOST_WIDTH = 100_000  # numbers of a vector


def rounded(vectors: ArrayLike, kind: str) -> NDArray[Any]:
    """Rows of real numbers [n, d] as int8 or float16 [n, d].

    Raises:
        CodesError: if the kind is unknown, or the values are not finite numbers [n, d].
    """
    if kind not in get_args(VectorKind):
        raise CodesError(unknown_name("kind of vectors", kind, get_args(VectorKind)))
    values = np.asarray(vectors)
    if values.ndim != 2 or values.dtype.kind not in "fi":
        raise CodesError(f"Vectors must be real numbers [n, width], got {describe(vectors)}.")
    values = values.astype(np.float32)
    if not np.isfinite(values).all():
        raise CodesError(f"Vectors must be finite, but row {np.argwhere(~np.isfinite(values))[0][0]} is not.")
    values /= np.maximum(np.abs(values).max(axis=1, keepdims=True, initial=0), np.finfo(np.float32).tiny)
    if kind == "int8":
        return np.rint(values * np.float32(127)).astype(np.int8)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), np.float32(1))
    return values.astype(np.float16)


def check_vectors(vectors: object, count: int) -> NDArray[Any]:
    """Rounded vectors of ``count`` rows; anything else raises ``CodesError``."""
    if not isinstance(vectors, np.ndarray) or vectors.dtype.name not in get_args(VectorKind):
        raise CodesError(f"Vectors of codes are int8 or float16, got {describe(vectors)}; codes.with_vectors rounds.")
    if vectors.ndim != 2 or len(vectors) != count or not 1 <= vectors.shape[1] <= MOST_WIDTH:
        raise CodesError(
            f"Vectors of {count} codes must have the shape [{count}, 1 to {MOST_WIDTH:,}], got {list(vectors.shape)}."
        )
    return vectors
