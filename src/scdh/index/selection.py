"""Choosing rows of segments by id."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.errors import CodesError, UnknownIdError
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
    chosen = np.asarray(only)
    if chosen.dtype == np.bool_:
        masks: Iterable[NDArray[np.bool_]] = _split_mask(segments, chosen)
    else:
        masks = (_rows_with(segment, id_row(chosen)) for segment in segments)
    selected = ((segment, allowed) for segment, allowed in zip(segments, masks, strict=True) if allowed.any())
    return [replace(segment, alive=allowed) for segment, allowed in selected]


def gather_words(segments: tuple[Segment, ...], ids: NDArray[np.int64], bits: int) -> NDArray[Any]:
    """The codes of these ids as words [words of a code, ids]; rejected if an id is unknown."""
    words = word_columns(Codes(np.zeros((len(ids), -(-bits // 8)), np.uint8), bits))
    known = np.zeros(len(ids), np.bool_)
    for segment in segments:
        rows = segment.rows_of(ids)
        in_segment = rows >= 0
        segment.check_words(rows[in_segment])
        words[:, in_segment] = segment.words[:, rows[in_segment]]
        known |= in_segment
    if not known.all():
        raise UnknownIdError(f"The index does not contain the id {ids[~known][0]}; {_span(segments)}.", ids[~known])
    return words


def _span(segments: tuple[Segment, ...]) -> str:
    held = [segment for segment in segments if len(segment)]
    if not held:
        return "it is empty"
    smallest, largest = min(one.smallest_id() for one in held), max(one.largest_id() for one in held)
    return f"its {sum(map(len, held))} ids go from {smallest} to {largest}"


def _rows_with(segment: Segment, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows have one of these ids."""
    rows = segment.rows_of(ids)
    allowed = np.zeros(segment.rows, np.bool_)
    allowed[rows[rows >= 0]] = True
    return allowed


def _split_mask(segments: tuple[Segment, ...], mask: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """The mask over all ids as one over the rows of each segment."""
    count = sum(map(len, segments))
    if mask.shape != (count,):
        raise CodesError(f"A mask over {count} items needs {count} values, got shape {list(mask.shape)}.")
    held = sorted((one for one in segments if len(one)), key=Segment.smallest_id)
    if any(one.largest_id() >= after.smallest_id() for one, after in pairwise(held)):
        ids = all_ids(segments)[mask]
        yield from (_rows_with(segment, ids) for segment in segments)
        return
    # Segments follow each other, so their parts of the mask do, and the ids themselves (8 bytes each) are not needed.
    starts = dict(zip(map(id, held), accumulate(map(len, held), initial=0), strict=False))
    for segment in segments:
        start = starts.get(id(segment), 0)
        part = mask[start : start + len(segment)]
        if segment.alive is None:
            yield part
        else:
            allowed = segment.alive.copy()
            allowed[segment.alive] = part
            yield allowed
