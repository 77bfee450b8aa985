"""Which rows of which segments a search may find."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.errors import CodesError
from scdh.index.arguments import id_row
from scdh.index.segments import Segment


def all_ids(segments: tuple[Segment, ...]) -> NDArray[np.int64]:
    """In ascending order."""
    return np.sort(np.concatenate([np.empty(0, np.int64), *(part.alive_ids() for part in segments)]))


def selection(segments: tuple[Segment, ...], only: ArrayLike | None) -> list[Segment]:
    """The segments that have something to find; ``alive`` of each says which rows may be found.

    ``only`` is ids (those that are not there are passed over) or a boolean mask over all ids.
    """
    if only is None:
        return [part for part in segments if len(part)]
    wanted = _wanted_ids(segments, np.asarray(only))
    parts = []
    for part in segments:
        rows = part.rows_of(wanted)
        allowed = np.zeros(part.rows, np.bool_)
        allowed[rows[rows >= 0]] = True
        if allowed.any():
            parts.append(Segment(part.words, part.ids, allowed))
    return parts


def _wanted_ids(segments: tuple[Segment, ...], only: NDArray[Any]) -> NDArray[np.int64]:
    if only.dtype != np.bool_:
        return id_row(only)
    ids = all_ids(segments)
    if only.shape != ids.shape:
        raise CodesError(f"A mask over {len(ids)} items needs {len(ids)} values, got shape {list(only.shape)}.")
    return ids[only]
