"""Labels and relevance. Two items are relevant to each other iff they share at least one label.

One label per item: whole numbers [n], −1 for "unlabelled". Many labels: multi-hot [n, C]; a row of zeros is
unlabelled. An unlabelled item is relevant to nothing, not even to another unlabelled one.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.errors import DataError
from scdh.index.kernels.distances import word_columns
from scdh.label_arrays import is_labelled


def check_labels(labels: ArrayLike, count: int | None, name: str = "labels") -> NDArray[Any]:
    """Labels as int64 [n] or bool [n, C], in a new array; ``count`` is the n that is expected, None any.

    >>> check_labels([2, 0, -1], 3).tolist()
    [2, 0, -1]
    >>> check_labels([[1, 0], [1, 1]], 2).tolist()
    [[True, False], [True, True]]
    """
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{name} must be an array of shape [n] or [n, C], but it is not: {error}.") from error
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] == 0):
        raise DataError(f"{name} must have shape [n] or multi-hot [n, C], got shape {list(array.shape)}.")
    if count is not None and len(array) != count:
        raise DataError(f"{name} must be one per item: there are {len(array)} for {count} items.")
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"{name} must be whole numbers or multi-hot 0/1, got values of type {array.dtype}; "
            "numpy.unique(names, return_inverse=True) turns names into numbers."
        )
    if array.ndim == 2:
        if not np.all((array == 0) | (array == 1)):
            raise DataError(f"{name} of shape {list(array.shape)} are multi-hot, so all values must be 0 or 1.")
        return array.astype(np.bool_)
    if array.dtype.kind == "f" and not np.all(np.isfinite(array) & (array == np.floor(array))):
        raise DataError(f"{name} must be whole numbers, but some are not.")
    # 2^63 itself is a float that no int64 reaches; larger numbers would wrap to −1 and the like.
    if array.size and array.dtype.kind != "i" and array.max() >= 2.0**63:
        raise DataError(f"{name} must fit into 64 bits with a sign, got {array.max()}.")
    whole = array.astype(np.int64)
    if whole.size and whole.min() < -1:
        raise DataError(f"{name} must be 0 or more, or -1 for unlabelled, got {whole.min()}.")
    return whole


class Relevance:
    """Which items are relevant to which queries, block by block, so that no table [queries, database] is in memory.

    ``query`` and ``database`` are labels [1, n] with one label per item, and label bits [words, n] with many, in words
    as ``word_columns`` makes them.
    """

    def __init__(self, query: NDArray[Any], database: NDArray[Any]) -> None:
        """Both as ``check_labels`` gives them."""
        if query.ndim != database.ndim:
            kinds = {1: "one label per item", 2: "multi-hot"}
            raise DataError(
                "Query and database labels must be of the same kind, "
                f"got {kinds[query.ndim]} for the queries and {kinds[database.ndim]} for the database."
            )
        self.single = query.ndim == 1
        if self.single:
            # −1 must not match −1: unlabelled queries get a number that no item has.
            self.query, self.database = np.where(is_labelled(query), query, -2)[None], database[None]
        else:
            if query.shape[1] != database.shape[1]:
                raise DataError(
                    "Multi-hot labels of queries and database must have the same number of classes, "
                    f"got {query.shape[1]} and {database.shape[1]}."
                )
            # Sets of labels as bits: a shared label is a bit of their "and".
            self.query = word_columns(Codes.from_bits(query))
            self.database = word_columns(Codes.from_bits(database))

    def block(self, rows: slice, columns: slice) -> NDArray[np.bool_]:
        """Boolean [queries, items] for one block."""
        if self.single:
            return self.query[0, rows, None] == self.database[0, None, columns]
        shared = self.query[0, rows, None] & self.database[0, None, columns]
        for query_word, database_word in zip(self.query[1:, rows], self.database[1:, columns], strict=True):
            shared |= query_word[:, None] & database_word[None, :]
        return shared != 0

    def of_same_rows(self) -> NDArray[np.bool_]:
        """Whether query i and item i share a label, for as many queries as items."""
        return (self.query == self.database)[0] if self.single else (self.query & self.database).any(axis=0)
