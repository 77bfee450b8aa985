"""The shortest way for one query: its scan takes microseconds, and so must everything around it.

The general way (rounds, plans, threads, several segments) took 60 µs of Python, this one takes five.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.index.hits import Hits
from scdh.index.search import scan
from scdh.index.search.planner import Planner
from scdh.index.search.tables import FEWEST_ROWS
from scdh.index.segments import Segment

_ALL_ROWS = scan.row_mask(None)
_kernel: Any = None


def nearest(planner: Planner, segments: tuple[Segment, ...], query: Codes, k: int, by: str) -> Hits | None:
    """The k nearest items of one query; None if the general way must be taken."""
    if len(segments) != 1 or by == "tables":
        return None
    segment = segments[0]
    words = segment.words
    row_count = words.shape[1]
    if segment.alive is not None or words.size >= scan.WORDS_FOR_A_THREAD or k > row_count:
        return None
    if not scan.is_worth_loading("nearest", words) or (
        by == "auto" and row_count >= FEWEST_ROWS and planner.has_tables(words)
    ):
        return None
    segment.check_words()
    packed = query.packed
    bytes_of_words = words.shape[0] * words.itemsize
    query_row = np.zeros((1, bytes_of_words), np.uint8)
    query_row[:, : packed.shape[1]] = packed
    rows, distances = np.empty((1, k), np.int64), np.empty((1, k), np.int32)
    _nearest()(
        words,
        query_row.view(words.dtype),
        0,
        row_count,
        k,
        8 * bytes_of_words,
        packed.shape[1],
        _ALL_ROWS,
        rows,
        distances,
    )
    if by == "auto" and row_count >= FEWEST_ROWS:
        planner.count_scan(words, query.bits, k, distances)
    ids: NDArray[np.int64] = rows if isinstance(segment.ids, int) and segment.ids == 0 else segment.ids_of(rows)
    return Hits(ids, distances)


def _nearest() -> Any:
    global _kernel
    if _kernel is None:  # loaded when it is first needed
        from scdh.index.kernels import scanning

        _kernel = scanning.nearest
    return _kernel
