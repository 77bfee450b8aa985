"""The results of a search: ids and distances, always ordered by (distance, id)."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class QueryHits:
    """The hits of one query; iterating over them gives pairs (id, distance), nearest first.

    Attributes:
        ids: int64 [n], the ids of the items.
        distances: int32 [n], their distances from the query; float64 if bits were weighted.

    >>> hits = QueryHits(np.array([30, 20]), np.array([0, 1], dtype=np.int32))
    >>> len(hits), list(hits)
    (2, [(30, 0), (20, 1)])
    """

    ids: NDArray[np.int64]
    distances: NDArray[Any]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """``(ids, distances)``."""
        return self.ids, self.distances

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return zip(self.ids.tolist(), self.distances.tolist(), strict=True)


@dataclass(frozen=True, eq=False)
class Hits:
    """The k nearest items of each query; every query has the same number of hits.

    ``hits[i]`` is the ``QueryHits`` of query i, ``len(hits)`` the number of queries, and iterating gives the
    ``QueryHits`` of all queries in turn. To unpack the two arrays use ``hits.arrays``: ``ids, distances = hits`` would
    unpack the hits of two queries.

    Attributes:
        ids: int64 [q, min(k, n)], where n is the number of items that may be found.
        distances: int32 [q, min(k, n)], ascending in each row; equal distances are in ascending order of id. float64 if
            bits were weighted.

    >>> hits = Hits(np.array([[30, 20], [10, 20]]), np.array([[0, 1], [0, 2]], dtype=np.int32))
    >>> len(hits), list(hits[0]), hits[-1].ids.tolist()
    (2, [(30, 0), (20, 1)], [10, 20])
    >>> ids, distances = hits.arrays
    >>> distances.tolist()
    [[0, 1], [0, 2]]
    """

    ids: NDArray[np.int64]
    distances: NDArray[Any]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """``(ids, distances)``, each [q, min(k, n)]."""
        return self.ids, self.distances

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, query: SupportsIndex) -> QueryHits:
        row = _row_number(query, len(self))
        return QueryHits(self.ids[row], self.distances[row])

    def __iter__(self) -> Iterator[QueryHits]:
        return (self[query] for query in range(len(self)))


@dataclass(frozen=True, eq=False)
class RaggedHits:
    """All items near each query, whose number differs from query to query.

    ``hits[i]`` is the ``QueryHits`` of query i, ``len(hits)`` the number of queries, and iterating gives the
    ``QueryHits`` of all queries in turn.

    Attributes:
        counts: int64 [q], the number of hits of each query.
        ids: int64 [sum of counts], the ids of the first query's items, then those of the second, and so on.
        distances: int32 [sum of counts], in the same order.

    >>> hits = RaggedHits(np.array([2, 0]), np.array([30, 20]), np.array([0, 1], dtype=np.int32))
    >>> list(hits[0]), len(hits[1])
    ([(30, 0), (20, 1)], 0)
    >>> ids, distances, counts = hits.arrays
    """

    counts: NDArray[np.int64]
    ids: NDArray[np.int64]
    distances: NDArray[np.int32]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """``(ids, distances, counts)``: the first two as in ``Hits``, concatenated over all queries."""
        return self.ids, self.distances, self.counts

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, query: SupportsIndex) -> QueryHits:
        row = _row_number(query, len(self))
        stop = int(self._stops[row])
        part = slice(stop - int(self.counts[row]), stop)
        return QueryHits(self.ids[part], self.distances[part])

    def __iter__(self) -> Iterator[QueryHits]:
        return (self[query] for query in range(len(self)))

    @cached_property
    def _stops(self) -> NDArray[np.int64]:
        return np.cumsum(self.counts)


def _row_number(query: SupportsIndex, count: int) -> int:
    """The row of a query; negative numbers count from the last one, as for lists."""
    number = operator.index(query)
    if not -count <= number < count:
        raise IndexError(f"Query {number} is out of range for {count} queries.")
    return number % count
