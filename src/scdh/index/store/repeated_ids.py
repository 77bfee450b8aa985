"""Ids that are in two segments of a file, which no writer makes, and of which a search would give both."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from scdh.index.segments import Segment

# Ids that are compared at once, so that memory does not grow with the file.
_AT_ONCE = 1 << 22


def repeated_id(segments: Sequence[Segment]) -> int | None:
    """An id that two segments have and have not removed; None if there is none. Each segment must be in order."""
    for group in _overlapping(segments):
        for ids in _windows(group):
            repeated = ids[1:][ids[1:] == ids[:-1]]
            if repeated.size:
                return int(repeated[0])
    return None


def _overlapping(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Groups of segments whose ids lie among each other; most segments have numbers of their own and are left out."""
    spans = sorted((_id_at(one, 0), _id_at(one, one.rows - 1), place) for place, one in enumerate(segments))
    group: list[Segment] = []
    end = 0
    for first, last, place in spans:
        if group and first > end:
            if len(group) > 1:
                yield group
            group = []
        end = max(end, last) if group else last
        group.append(segments[place])
    if len(group) > 1:
        yield group


def _windows(segments: Sequence[Segment]) -> Iterator[NDArray[np.int64]]:
    """The ids of all segments that are not removed, sorted, in parts from one limit to the next."""
    step = max(1, _AT_ONCE // len(segments))
    marks = np.sort(np.concatenate([one.ids_of(np.arange(0, one.rows, step)) for one in segments]))[:: len(segments)]
    starts = [_rows_before(one, marks) for one in segments]
    for window in range(len(marks)):
        parts = []
        for one, rows in zip(segments, starts, strict=True):
            numbers = np.arange(rows[window], rows[window + 1])
            alive = numbers if one.alive is None else numbers[one.alive[rows[window] : rows[window + 1]]]
            parts.append(one.ids_of(alive))
        yield np.sort(np.concatenate(parts), kind="stable")  # which merges parts that are in order


def _rows_before(segment: Segment, marks: NDArray[np.int64]) -> list[int]:
    """How many ids are below each mark, and at last how many there are."""
    if isinstance(segment.ids, int):
        below = [min(max(mark - segment.ids, 0), segment.rows) for mark in marks.tolist()]
    else:
        below = np.searchsorted(segment.ids, marks).tolist()
    return [*below, segment.rows]


def _id_at(segment: Segment, row: int) -> int:
    return int(segment.ids_of(np.array([row]))[0])
