"""An index is a row of segments: codes that lie together, in memory or in a mapped file.

A segment is never changed, so readers need no lock and a file of segments only ever grows. Adding makes a new
segment; removing marks rows. Small neighbours are put together as they come, so that their number stays near the
logarithm of the number of additions and an item is copied only that many times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.code_arguments import check_ids
from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.kernels.distances import word_columns

# Segments are put together up to this many rows; larger ones are left where they are.
MERGED_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows in ascending order of id, so that of two rows at the same distance the first has the smaller id.

    ``words`` is [words, rows] as from ``word_columns``. ``ids`` is int64 [rows], or one number: the id of row 0, after
    which ids count on (100 million ids then take no memory). ``alive`` says which rows are still there; None: all.
    """

    words: NDArray[Any]
    ids: NDArray[np.int64] | int
    alive: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        assert self.words.flags.c_contiguous  # what the kernels' arithmetic on addresses relies on

    @property
    def rows(self) -> int:
        """All rows, also the removed ones."""
        return int(self.words.shape[1])

    def __len__(self) -> int:
        return self.rows if self.alive is None else int(np.count_nonzero(self.alive))

    def ids_of(self, rows: NDArray[np.integer]) -> NDArray[np.int64]:
        return self.ids + rows.astype(np.int64) if isinstance(self.ids, int) else self.ids[rows]

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each id, −1 where it is not here."""
        if self.rows == 0:
            return np.full(len(ids), -1)
        if isinstance(self.ids, int):
            inside = (ids >= self.ids) & (ids <= self.ids + (self.rows - 1))
            rows = np.where(inside, ids - self.ids, -1)
        else:
            rows = np.minimum(np.searchsorted(self.ids, ids), self.rows - 1)
            rows = np.where(self.ids[rows] == ids, rows, -1)
        return rows if self.alive is None else np.where((rows >= 0) & self.alive[rows], rows, -1)

    def alive_rows(self) -> NDArray[np.int64]:
        return np.arange(self.rows) if self.alive is None else np.flatnonzero(self.alive)

    def alive_ids(self) -> NDArray[np.int64]:
        return self.ids_of(self.alive_rows())

    def largest_id(self) -> int:
        """Of the rows that are still there, of which there must be one."""
        last = self.rows - 1 if self.alive is None else self.rows - 1 - int(np.argmax(self.alive[::-1]))
        return int(self.ids_of(np.array([last]))[0])

    def without(self, rows: NDArray[np.int64]) -> "Segment":
        alive = np.ones(self.rows, dtype=np.bool_) if self.alive is None else self.alive.copy()
        alive[rows] = False
        return replace(self, alive=alive)


def segment_of(codes: Codes, ids: NDArray[np.int64]) -> Segment:
    """Codes with these ids, which must all differ."""
    return _ordered(word_columns(codes), ids)


def joined(parts: Sequence[Segment]) -> Segment:
    """The rows that are still there, as one segment."""
    words = [part.words if part.alive is None else part.words[:, part.alive] for part in parts]
    return _ordered(np.concatenate(words, axis=1), np.concatenate([part.alive_ids() for part in parts]))


def added(segments: Sequence[Segment], new: Segment) -> tuple[Segment, ...]:
    """The segments and a new one, which takes in its small neighbours: those less than twice its size."""
    kept = list(segments)
    while kept and kept[-1].rows < 2 * new.rows and kept[-1].rows + new.rows <= MERGED_ROWS:
        new = joined([kept.pop(), new])
    return (*kept, new) if new.rows else tuple(kept)


def removed(segments: Sequence[Segment], ids: NDArray[np.int64]) -> tuple[Segment, ...]:
    """The segments without these ids; refused as a whole if one of them is not there."""
    left = []
    found = np.zeros(len(ids), dtype=np.bool_)
    for segment in segments:
        rows = segment.rows_of(ids)
        found |= rows >= 0
        if (rows < 0).all():
            left.append(segment)
            continue
        smaller = segment.without(rows[rows >= 0])
        # Once half of the rows are gone, walking over them costs more than leaving them behind.
        smaller = joined([smaller]) if len(smaller) <= smaller.rows // 2 else smaller
        if smaller.rows:
            left.append(smaller)
    if not found.all():
        unknown = ids[~found]
        raise CodesError(f"The index holds no id {unknown[0]} ({unknown.size} of the ids to remove are unknown).")
    return tuple(left)


def choose_ids(segments: Sequence[Segment], codes: Codes, ids: ArrayLike | None) -> NDArray[np.int64]:
    """Ids for codes to add: those given, those the codes carry, or the numbers after the largest id there is."""
    if ids is None and codes.ids is None:
        first = max((segment.largest_id() for segment in segments), default=-1) + 1
        if first + len(codes) - 1 > np.iinfo(np.int64).max:
            raise CodesError("There are no free ids after the largest one present; give ids for the new codes.")
        return np.arange(first, first + len(codes), dtype=np.int64)
    chosen = codes.ids if ids is None else check_ids(ids, len(codes))
    assert chosen is not None
    refuse_repeated(chosen)
    known = np.zeros(len(chosen), dtype=np.bool_)
    for segment in segments:
        known |= segment.rows_of(chosen) >= 0
    if known.any():
        first_known = chosen[known][0]
        raise CodesError(f"The index already holds the id {first_known} ({known.sum()} of the ids to add are known).")
    return chosen


def refuse_repeated(ids: NDArray[np.int64]) -> None:
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        raise CodesError(f"Each id may be given once, but the id {repeated[0]} is given more than once.")


def _ordered(words: NDArray[Any], ids: NDArray[np.int64]) -> Segment:
    if np.any(ids[1:] < ids[:-1]):
        order = np.argsort(ids)
        words, ids = words[:, order], ids[order]
    # Kernels take rows that lie side by side, which numpy's choosing of columns does not promise. And mapped words
    # cannot be written to: kernels would be compiled once more for words that can.
    words, ids = np.ascontiguousarray(words).view(), ids.view()
    words.flags.writeable = ids.flags.writeable = False
    # Without repetitions, ascending ids that span as many numbers as there are rows have no gap.
    consecutive = len(ids) == 0 or int(ids[-1]) - int(ids[0]) == len(ids) - 1
    return Segment(words, (int(ids[0]) if len(ids) else 0) if consecutive else ids)
