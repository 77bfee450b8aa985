"""An index is a sequence of segments: arrays of codes, in memory or in a mapped file.

A segment is never changed, so readers need no lock and a file of segments only ever grows. Adding makes a new
segment; removing marks rows. Small neighbours are merged when a segment is added, so that the number of segments stays
near the logarithm of the number of additions, and an item is copied only that many times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.codes.arguments import check_ids
from scdh.errors import CodesError
from scdh.index.arguments import check_all_known, check_all_new, check_distinct, ids_after
from scdh.index.kernels.distances import word_columns

# Segments are merged up to this many rows; larger ones stay as they are.
MERGED_ROWS = 1 << 20


class Guard(Protocol):
    """Guards an array in a file: rejects damage when rows are read for the first time."""

    def check(self, rows: NDArray[Any] | None = None) -> None:
        """Reject damage in these rows, numbers or a mask; None: in all rows."""

    def check_unchanged(self) -> None:
        """Reject a file that was cut short or overwritten: reading such a map would crash the process."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows in ascending order of id, so that of two rows at the same distance the first has the smaller id.

    ``words`` are the codes as unsigned numbers [words of a code, rows], as made by ``word_columns``. ``ids`` is int64
    [rows], or one number: the id of row 0, with consecutive ids after it (100 million ids then take no memory).
    ``alive`` is a boolean [rows], False for removed rows; None if no row was removed. ``vectors`` [rows, width] are
    those of the codes, if they have any. Arrays in a file have guards: call ``check_words`` before reading ``words``;
    the methods for ids and vectors check what they read.
    """

    words: NDArray[Any]
    ids: NDArray[np.int64] | int
    alive: NDArray[np.bool_] | None = None
    words_guard: Guard | None = None
    ids_guard: Guard | None = None
    vectors: NDArray[Any] | None = None
    vectors_guard: Guard | None = None

    def __post_init__(self) -> None:
        assert self.words.flags.c_contiguous  # the kernels compute addresses from the shape

    @property
    def rows(self) -> int:
        """The number of rows, also of removed ones."""
        return int(self.words.shape[1])

    def __len__(self) -> int:
        return self.rows if self.alive is None else int(np.count_nonzero(self.alive))

    def check_words(self, rows: NDArray[Any] | None = None) -> None:
        """Reject damage in the codes of these rows, numbers or a mask; None: of all rows."""
        if self.words_guard is not None:
            self.words_guard.check(rows)

    def _check_ids(self, rows: NDArray[Any] | None = None) -> None:
        if self.ids_guard is not None:
            self.ids_guard.check(rows)

    def vectors_of(self, rows: NDArray[Any] | None = None) -> NDArray[Any]:
        """The vectors of these rows, numbers or a mask; None: of all rows."""
        assert self.vectors is not None
        if self.vectors_guard is not None:
            self.vectors_guard.check(rows)
        return self.vectors if rows is None else self.vectors[rows]

    def ids_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        if isinstance(self.ids, int):
            return self.ids + rows.astype(np.int64, copy=False)
        self._check_ids(rows)
        return self.ids[rows]

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each id, −1 where this segment does not hold it."""
        if self.rows == 0:
            return np.full(len(ids), -1)
        if isinstance(self.ids, int):
            inside = (ids >= self.ids) & (ids <= self.ids + (self.rows - 1))
            rows = np.where(inside, ids - self.ids, -1)
        else:
            self._check_ids()
            rows = np.minimum(np.searchsorted(self.ids, ids), self.rows - 1)
            rows = np.where(self.ids[rows] == ids, rows, -1)
        return rows if self.alive is None else np.where((rows >= 0) & self.alive[rows], rows, -1)

    def alive_rows(self) -> NDArray[np.int64]:
        return np.arange(self.rows) if self.alive is None else np.flatnonzero(self.alive)

    def alive_ids(self) -> NDArray[np.int64]:
        if self.alive is not None:
            return self.ids_of(self.alive_rows())
        if isinstance(self.ids, int):
            return np.arange(self.ids, self.ids + self.rows, dtype=np.int64)
        self._check_ids()
        return self.ids

    def smallest_id(self) -> int:
        """The smallest id of the rows that are not removed, of which there must be one."""
        first = 0 if self.alive is None else int(np.argmax(self.alive))
        return int(self.ids_of(np.array([first]))[0])

    def largest_id(self) -> int:
        """The largest id of the rows that are not removed, of which there must be one."""
        last = self.rows - 1 if self.alive is None else self.rows - 1 - int(np.argmax(self.alive[::-1]))
        return int(self.ids_of(np.array([last]))[0])

    def without(self, rows: NDArray[np.int64]) -> "Segment":
        alive = np.ones(self.rows, dtype=np.bool_) if self.alive is None else self.alive.copy()
        alive[rows] = False
        return replace(self, alive=alive)


def make_segment(codes: Codes, ids: NDArray[np.int64]) -> Segment:
    """A segment of codes with these ids, which must all differ."""
    return _ordered(word_columns(codes), ids, codes.vectors)


def merge(segments: Sequence[Segment]) -> Segment:
    """The rows that are not removed, as one segment."""
    for segment in segments:
        segment.check_words()  # a new segment gets new checksums, which must not hide damage
    words = [segment.words if segment.alive is None else segment.words[:, segment.alive] for segment in segments]
    ids = np.concatenate([segment.alive_ids() for segment in segments])
    has_vectors = vector_kind(segments) is not None
    vectors = np.concatenate([segment.vectors_of(segment.alive) for segment in segments]) if has_vectors else None
    return _ordered(np.concatenate(words, axis=1), ids, vectors)


def vector_kind(segments: Sequence[Segment]) -> tuple[str, int] | None:
    """Type and width of the vectors of all segments; None if they have none."""
    kinds = {None if one.vectors is None else (one.vectors.dtype.name, one.vectors.shape[1]) for one in segments}
    if len(kinds) > 1:
        named = sorted("no vectors" if kind is None else f"{kind[0]} vectors of {kind[1]} numbers" for kind in kinds)
        raise CodesError(
            f"All items of an index must have vectors of one kind, or none, but these have {' and '.join(named)}."
        )
    return next(iter(kinds), None)


def add_segment(segments: Sequence[Segment], new: Segment) -> tuple[Segment, ...]:
    """The segments and a new one, which is merged with the last ones if they have less than twice its rows."""
    vector_kind([*segments[:1], *([new] if new.rows else [])])
    result = list(segments)
    while result and result[-1].rows < 2 * new.rows and result[-1].rows + new.rows <= MERGED_ROWS:
        new = merge([result.pop(), new])
    return (*result, new) if new.rows else tuple(result)


def remove_ids(segments: Sequence[Segment], ids: NDArray[np.int64]) -> tuple[Segment, ...]:
    """The segments without these ids; rejected as a whole if one of them is unknown."""
    result = []
    known = np.zeros(len(ids), dtype=np.bool_)
    for segment in segments:
        rows = segment.rows_of(ids)
        known |= rows >= 0
        if (rows < 0).all():
            result.append(segment)
            continue
        smaller = segment.without(rows[rows >= 0])
        # Once half of the rows are removed, skipping them costs more than copying the others.
        smaller = merge([smaller]) if len(smaller) <= smaller.rows // 2 else smaller
        if smaller.rows:
            result.append(smaller)
    check_all_known(ids, known)
    return tuple(result)


def choose_ids(segments: Sequence[Segment], codes: Codes, ids: ArrayLike | None) -> NDArray[np.int64]:
    """Ids for codes to add: those given, those the codes carry, or the numbers after the largest id."""
    if ids is None and codes.ids is None:
        return ids_after(max((segment.largest_id() for segment in segments), default=-1), len(codes))
    chosen = codes.ids if ids is None else check_ids(ids, len(codes))
    assert chosen is not None
    check_distinct(chosen)
    known = np.zeros(len(chosen), dtype=np.bool_)
    for segment in segments:
        known |= segment.rows_of(chosen) >= 0
    check_all_new(chosen, known)
    return chosen


def _ordered(words: NDArray[Any], ids: NDArray[np.int64], vectors: NDArray[Any] | None) -> Segment:
    """A segment of these rows in ascending order of id."""
    if np.any(ids[1:] < ids[:-1]):
        order = np.argsort(ids)
        words, ids = words[:, order], ids[order]
        vectors = None if vectors is None else vectors[order]
    # Kernels need contiguous words, which choosing columns in numpy does not promise. And words from a file are
    # read-only, so all are made read-only: otherwise kernels would be compiled twice.
    words, ids = np.ascontiguousarray(words).view(), ids.view()
    words.flags.writeable = ids.flags.writeable = False
    # Without repetitions, ascending ids that span as many numbers as there are rows have no gap.
    consecutive = len(ids) == 0 or int(ids[-1]) - int(ids[0]) == len(ids) - 1
    return Segment(words, (int(ids[0]) if len(ids) else 0) if consecutive else ids, vectors=vectors)
