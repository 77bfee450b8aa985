"""Choosing rows of segments by id."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.arguments import id_row
from scdh.index.kernels.distances import word_columns
from scdh.index.segments import Segment


def all_ids(segments: tuple[Segment, ...]) -> NDArray[np.int64]:
    """The ids of all segments in ascending order."""
    return np.sort(np.concatenate([np.empty(0, np.int64), *(segment.alive_ids() for segment in segments)]))


def select_rows(segments: tuple[Segment, ...], only: ArrayLike | None) -> list[Segment]:
    """The segments with rows that may be found; ``alive`` of each says which rows these are.

    ``only`` is ids (those that no segment holds are ignored) or a boolean mask over all ids.
    """
    if only is None:
        return [segment for segment in segments if len(segment)]
    wanted = _wanted_ids(segments, np.asarray(only))
    selected = []
    for segment in segments:
        rows = segment.rows_of(wanted)
        allowed = np.zeros(segment.rows, np.bool_)
        allowed[rows[rows >= 0]] = True
        if allowed.any():
            selected.append(replace(segment, alive=allowed))
    return selected


def gather_words(segments: tuple[Segment, ...], ids: NDArray[np.int64], bits: int) -> NDArray[Any]:
    """The codes of these ids as words [words of a code, ids]; refused if an id is unknown."""
    words = word_columns(Codes(np.zeros((len(ids), -(-bits // 8)), np.uint8), bits))
    known = np.zeros(len(ids), np.bool_)
    for segment in segments:
        rows = segment.rows_of(ids)
        in_segment = rows >= 0
        segment.check_words(rows[in_segment])
        words[:, in_segment] = segment.words[:, rows[in_segment]]
        known |= in_segment
    if not known.all():
        raise CodesError(f"The index holds no id {ids[~known][0]}; {_span(segments)}.")
    return words


def _span(segments: tuple[Segment, ...]) -> str:
    held = [segment for segment in segments if len(segment)]
    if not held:
        return "it is empty"
    smallest, largest = min(one.smallest_id() for one in held), max(one.largest_id() for one in held)
    return f"its {sum(map(len, held))} ids go from {smallest} to {largest}"


def _wanted_ids(segments: tuple[Segment, ...], only: NDArray[Any]) -> NDArray[np.int64]:
    if only.dtype != np.bool_:
        return id_row(only)
    ids = all_ids(segments)
    if only.shape != ids.shape:
        raise CodesError(f"A mask over {len(ids)} items needs {len(ids)} values, got shape {list(only.shape)}.")
    return ids[only]
