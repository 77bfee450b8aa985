"""Scan or tables? Each segment learns from its queries which is faster; the answers are the same.

Tables are built when scans that they could have spared have cost as much as building them takes. A kind of query (k
nearest, or a radius) that mostly overruns its budget in the tables is scanned from then on.
"""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import ConfigError, unknown_name
from scdh.index.search import scan, tables
from scdh.index.search.scan import Distances, Rows
from scdh.index.search.tables import Tables

WAYS = ("auto", "scan", "tables")
# Building one table takes about as long as scanning for this many queries.
_QUERIES_PER_TABLE = 256
# Tables beyond this are built only on request (``prepare``): nobody wants a gigabyte by surprise.
_MOST_BYTES = 1 << 30
# Queries on trial: how many find out whether tables are any good for their kind.
TRIAL = 32


@dataclass
class _Segment:
    """What is known about the words of one segment."""

    words: NDArray[Any]
    bits: int
    tables: Tables | None = None
    spared: int = 0
    good: dict[tuple[str, int], bool] = field(default_factory=dict)

    def build(self) -> Tables:
        if self.tables is None:
            self.tables = Tables.build(self.words, self.bits)
        return self.tables

    def could_spare(self, queries: int, radius: int) -> bool:
        """Count scans that tables would have made unnecessary; True once tables are there, or are worth it."""
        rows = self.words.shape[1]
        if not tables.may_win(self.bits, rows, radius):
            return False
        if self.tables is not None:
            return True
        self.spared += queries
        pieces = len(tables.piece_cuts(self.bits, rows)) - 1
        return (
            self.spared >= _QUERIES_PER_TABLE * pieces
            and self.spared * rows >= scan.WORTH_LOADING
            and 8 * pieces * rows <= _MOST_BYTES
        )


class Finder:
    """Finds in the segments of one index, and keeps their tables."""

    def __init__(self) -> None:
        self._segments: dict[int, _Segment] = {}
        self._lock = Lock()

    def prepare(self, words: NDArray[Any], bits: int) -> None:
        """Build the tables now, for segments that are large enough to gain by them."""
        if words.shape[1] >= tables.FEWEST_ROWS:
            self._known(words, bits).build()

    def keep_only(self, words: list[NDArray[Any]]) -> None:
        """Forget segments that are no longer there."""
        there = {id(one) for one in words}
        with self._lock:
            self._segments = {key: segment for key, segment in self._segments.items() if key in there}

    def nearest(
        self, words: NDArray[Any], queries: NDArray[Any], k: int, bits: int, allowed: NDArray[np.bool_] | None, by: str
    ) -> tuple[Rows, Distances]:
        """As ``scan.nearest``."""
        total = words.shape[1]
        k = min(k, total if allowed is None else int(np.count_nonzero(allowed)))
        segment, kind = self._known(words, bits), ("k", k)
        if by == "tables":
            return segment.build().nearest(queries, k, allowed, None)[:2]
        if by == "scan" or segment.tables is None or not self._good(segment, kind, allowed):
            rows, distances = scan.nearest(words, queries, k, bits, allowed)
            # How far the k-th neighbour usually is tells what tables would have had to do.
            if by == "auto" and allowed is None and distances.size and total >= tables.FEWEST_ROWS:
                farthest = int(np.sort(distances[:, -1])[len(distances) // 2])
                if self._good(segment, kind, None) and segment.could_spare(len(distances), farthest):
                    segment.build()
            return rows, distances
        rows, distances, done = segment.tables.nearest(queries, k, allowed, tables.budget(total))
        if allowed is None:  # with a filter, neighbours are farther away
            segment.good[kind] = bool(2 * np.count_nonzero(done) >= len(done))
        if not done.all():
            rows[~done], distances[~done] = scan.nearest(words, queries[:, ~done], k, bits, allowed)
        return rows, distances

    def within(
        self,
        words: NDArray[Any],
        queries: NDArray[Any],
        radius: int,
        bits: int,
        allowed: NDArray[np.bool_] | None,
        by: str,
    ) -> tuple[Rows, Rows, Distances]:
        """As ``scan.within``."""
        segment, kind = self._known(words, bits), ("radius", radius)
        if by == "tables":
            return segment.build().within(queries, radius, allowed, None)[0]
        if by == "scan" or not self._good(segment, kind, allowed) or not segment.could_spare(queries.shape[1], radius):
            return scan.within(words, queries, radius, bits, allowed)
        found, done = segment.build().within(queries, radius, allowed, tables.budget(words.shape[1]))
        if allowed is None:
            segment.good[kind] = bool(2 * np.count_nonzero(done) >= len(done))
        if done.all():
            return found
        late = scan.within(words, queries[:, ~done], radius, bits, allowed)
        query = np.concatenate([found[0], np.flatnonzero(~done)[late[0]]])
        order = np.argsort(query, kind="stable")
        rows, distances = np.concatenate([found[1], late[1]]), np.concatenate([found[2], late[2]])
        return query[order], rows[order], distances[order]

    def _known(self, words: NDArray[Any], bits: int) -> _Segment:
        with self._lock:
            return self._segments.setdefault(id(words), _Segment(words, bits))

    def _good(self, segment: _Segment, kind: tuple[str, int], allowed: NDArray[np.bool_] | None) -> bool:
        """Not known to be bad; and few allowed rows are scanned alone, which nothing beats."""
        if allowed is not None and 8 * np.count_nonzero(allowed) < len(allowed):
            return False
        return segment.good.get(kind, True)


def check_way(by: str) -> None:
    if by not in WAYS:
        raise ConfigError(unknown_name("way to search", by, WAYS))
