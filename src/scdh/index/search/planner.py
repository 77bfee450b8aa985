"""Scan or tables: each segment learns from its queries which is faster; the results are the same.

Tables are built once the scans that they could have replaced have cost as much as building them. A kind of query (k
nearest, or a radius) that mostly exceeds its budget in the tables is scanned from then on.

Throughout the search code, ``words`` are the codes of one segment as unsigned numbers [words of a code, rows], made by
``word_columns``; ``queries`` are the codes of the queries in the same form.
"""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import ConfigError, unknown_name
from scdh.index.search import hash_tables, scan
from scdh.index.search.hash_tables import Tables
from scdh.index.search.scan import Distances, Rows

METHODS = ("auto", "scan", "tables")
# Building one table takes about as long as scanning for this many queries.
_QUERIES_PER_TABLE = 256
# Larger tables are built only by ``prepare``, so that memory use does not grow by a gigabyte unexpectedly.
_MOST_BYTES = 1 << 30
# Queries of the first round, which show whether tables are faster for their kind.
TRIAL = 32

Kind = tuple[str, int]  # ("k", k) or ("radius", radius)


@dataclass
class _SegmentState:
    """The tables of one segment, and what its queries have shown about them."""

    words: NDArray[Any]
    bits: int
    tables: Tables | None = None
    scanned_queries: int = 0  # those that tables could have answered faster
    within_budget: dict[Kind, bool] = field(default_factory=dict)  # whether most queries of a kind were

    def build(self) -> Tables:
        if self.tables is None:
            self.tables = Tables.build(self.words, self.bits)
        return self.tables

    def count_queries(self, count: int, radius: int) -> None:
        """Count queries that are scanned although tables could be faster for neighbours at this distance."""
        if self.tables is None and hash_tables.may_win(self.bits, self.words.shape[1], radius):
            self.scanned_queries += count

    def is_worth_tables(self, radius: int) -> bool:
        """Whether tables are faster for neighbours at this distance, and exist or are worth building by now."""
        rows = self.words.shape[1]
        if not hash_tables.may_win(self.bits, rows, radius):
            return False
        pieces = len(hash_tables.piece_cuts(self.bits, rows)) - 1
        return self.tables is not None or (
            self.scanned_queries >= _QUERIES_PER_TABLE * pieces
            and self.scanned_queries * rows >= scan.WORTH_LOADING
            and 8 * pieces * rows <= _MOST_BYTES
            and hash_tables.are_loaded(self.words)
        )

    def may_use_tables(self, kind: Kind, allowed: NDArray[np.bool_] | None) -> bool:
        """Whether tables are not known to be slow for this kind; few allowed rows are always scanned."""
        if allowed is not None and 8 * np.count_nonzero(allowed) < len(allowed):
            return False
        return self.within_budget.get(kind, True)

    def record(self, kind: Kind, done: NDArray[np.bool_], allowed: NDArray[np.bool_] | None) -> None:
        """Remember whether most queries stayed in the budget; with a filter neighbours are farther, so not then."""
        if allowed is None:
            self.within_budget[kind] = bool(2 * np.count_nonzero(done) >= len(done))


class Planner:
    """Searches the segments of one index, and keeps their tables."""

    def __init__(self) -> None:
        self._states: dict[int, _SegmentState] = {}
        self._lock = Lock()

    def prepare(self, words: NDArray[Any], bits: int) -> None:
        """Build the tables now, for segments that are large enough to gain by them."""
        if words.shape[1] >= hash_tables.FEWEST_ROWS:
            self._state(words, bits).build()

    def copy(self) -> "Planner":
        """Another planner with the same tables, which drops its own alone."""
        other = Planner()
        with self._lock:
            other._states = dict(self._states)
        return other

    def keep_only(self, words: list[NDArray[Any]]) -> None:
        """Drop the tables of all other segments."""
        current = {id(array) for array in words}
        with self._lock:
            self._states = {key: state for key, state in self._states.items() if key in current}

    def nearest(
        self, words: NDArray[Any], queries: NDArray[Any], k: int, bits: int, allowed: NDArray[np.bool_] | None, by: str
    ) -> tuple[Rows, Distances]:
        """As ``scan.nearest``."""
        total = words.shape[1]
        k = min(k, total if allowed is None else int(np.count_nonzero(allowed)))
        state, kind = self._state(words, bits), ("k", k)
        if by == "tables":
            rows, distances, done = state.build().nearest(queries, k, allowed, None)
            return self._complete(rows, distances, done, words, queries, k, allowed, bits)
        if by == "scan" or state.tables is None or not state.may_use_tables(kind, allowed):
            rows, distances = scan.nearest(words, queries, k, allowed, bits)
            if by == "auto" and allowed is None and distances.size and total >= hash_tables.FEWEST_ROWS:
                self.count_scan(words, bits, k, distances)
            return rows, distances
        rows, distances, done = state.tables.nearest(queries, k, allowed, hash_tables.budget(total))
        state.record(kind, done, allowed)
        return self._complete(rows, distances, done, words, queries, k, allowed, bits)

    def has_tables(self, words: NDArray[Any]) -> bool:
        """Whether tables exist for this segment."""
        state = self._states.get(id(words))
        return state is not None and state.tables is not None

    def count_scan(self, words: NDArray[Any], bits: int, k: int, distances: Distances) -> None:
        """Count queries that were scanned, with the distances [q, k] they found; build tables if these would pay."""
        state = self._state(words, bits)
        if state.may_use_tables(("k", k), None):
            # The usual distance of the k-th neighbour is the radius that tables would have had to search.
            last = distances[:, -1]
            radius = int(last[0] if len(last) == 1 else np.sort(last)[len(last) // 2])
            state.count_queries(len(last), radius)
            if state.is_worth_tables(radius):
                state.build()

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
        state, kind = self._state(words, bits), ("radius", radius)
        if by == "tables":
            return state.build().within(queries, radius, allowed, None)[0]
        if by == "scan" or not state.may_use_tables(kind, allowed):
            return scan.within(words, queries, radius, allowed)
        state.count_queries(queries.shape[1], radius)
        if not state.is_worth_tables(radius):
            return scan.within(words, queries, radius, allowed)
        pairs, done = state.build().within(queries, radius, allowed, hash_tables.budget(words.shape[1]))
        state.record(kind, done, allowed)
        if done.all():
            return pairs
        query, rows, distances = scan.within(words, queries[:, ~done], radius, allowed)
        query = np.concatenate([pairs[0], np.flatnonzero(~done)[query]])
        order = np.argsort(query, kind="stable")
        rows, distances = np.concatenate([pairs[1], rows]), np.concatenate([pairs[2], distances])
        return query[order], rows[order], distances[order]

    @staticmethod
    def _complete(
        rows: Rows,
        distances: Distances,
        done: NDArray[np.bool_],
        words: NDArray[Any],
        queries: NDArray[Any],
        k: int,
        allowed: NDArray[np.bool_] | None,
        bits: int,
    ) -> tuple[Rows, Distances]:
        """The result of the tables; what they have not answered is scanned, as their output is empty memory there."""
        if np.count_nonzero(done) < len(done):  # faster than all(), which would be a tenth of one near query
            rows[~done], distances[~done] = scan.nearest(words, queries[:, ~done], k, allowed, bits)
        return rows, distances

    def _state(self, words: NDArray[Any], bits: int) -> _SegmentState:
        with self._lock:
            return self._states.setdefault(id(words), _SegmentState(words, bits))


def check_method(by: str) -> None:
    if by not in METHODS:
        raise ConfigError(unknown_name("way to search", by, METHODS))
