"""Exact rankings from Milvus, which cuts a row of equal distances wherever it likes.

Milvus gives the right distances of the ``limit`` nearest items, and of those at its last distance some. So more than
k are asked for, and where the k-th distance is still the last one, all items at just that distance are asked for (a
range search), and the smallest ids taken. No answer may have more than ``MOST_HITS`` items; one that is full is
asked for again as two, below and above the middle of its ids, until each part is whole.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.index.milvus.server import MilvusServer

Ranking = tuple[NDArray[np.int64], NDArray[np.int32]]  # ids and distances of one query

MOST_HITS = 16_384  # Milvus refuses to give more
FIRST_HITS = 1_024  # asked for in a first round for many queries, since most have less
_ANSWER_HITS = 1 << 18  # of all queries of one request, some 5 MB


class Ranks:
    """Rankings of the items of one collection, or of those ``chosen`` (ids that are there)."""

    def __init__(self, server: MilvusServer, chosen: NDArray[np.int64] | None) -> None:
        self._server = server
        self._chosen = "" if chosen is None else f"id in {chosen.tolist()}"

    def nearest(self, queries: list[bytes], width: int) -> list[Ranking]:
        """The ``width`` nearest of each query, by (distance, id); there must be as many, and at most MOST_HITS."""
        limit = min(MOST_HITS, 2 * width + 64)
        found = self._ask(queries, limit)
        cut: dict[int, list[int]] = {}
        for query, (ids, distances) in enumerate(found):
            if len(ids) < width:
                raise CodesError("The collection lost items while it was searched; search again.")
            if len(ids) == limit and distances[-1] == distances[width - 1]:
                cut.setdefault(int(distances[-1]), []).append(query)
        for distance, rows in cut.items():
            # At most ``width`` are needed, fewer by those that are nearer, of which all are known.
            levels = self.between([queries[row] for row in rows], distance, distance, enough=width)
            for row, (ids, distances) in zip(rows, levels, strict=True):
                nearer = found[row][1] < distance
                found[row] = (
                    np.concatenate([found[row][0][nearer], ids]),
                    np.concatenate([found[row][1][nearer], distances]),
                )
        return [(ids[:width], distances[:width]) for ids, distances in found]

    def between(self, queries: list[bytes], low: int, high: int, enough: int | None = None) -> list[Ranking]:
        """All items at a distance of ``low`` … ``high``, by (distance, id).

        With ``enough``, it may be that many or more of those with the smallest ids.
        """
        # Of Milvus's two bounds the upper one is left out: range_filter ≤ distance < radius. It cuts fractions off.
        bounds = {"radius": high + 1, "range_filter": low}
        found = self._ask(queries, FIRST_HITS, bounds)
        for query, (ids, _) in enumerate(found):
            if len(ids) >= FIRST_HITS:
                found[query] = _ordered(*self._whole(queries[query], bounds, [], enough))
        return found

    def _whole(self, query: bytes, bounds: dict[str, int], limits: list[str], enough: int | None) -> Ranking:
        """All of a query within bounds of distance and limits of id, in any order."""
        ids, distances = self._ask([query], MOST_HITS, bounds, limits)[0]
        if len(ids) < MOST_HITS:
            return ids, distances
        # Each side has half of these, so each is smaller than the whole, and this ends.
        middle = int(np.partition(ids, len(ids) // 2 - 1)[len(ids) // 2 - 1])
        ids, distances = self._whole(query, bounds, [*limits, f"id <= {middle}"], enough)
        if enough is not None and len(ids) >= enough:
            return ids, distances
        more, further = self._whole(query, bounds, [*limits, f"id > {middle}"], enough)
        return np.concatenate([ids, more]), np.concatenate([distances, further])

    def _ask(
        self, queries: list[bytes], limit: int, bounds: dict[str, int] | None = None, limits: list[str] | None = None
    ) -> list[Ranking]:
        """At most ``limit`` items of each query, in requests whose answers are not too large."""
        step = max(1, min(1024, _ANSWER_HITS // limit))
        where = " and ".join([*([self._chosen] if self._chosen else []), *(limits or [])])
        found: list[Ranking] = []
        for start in range(0, len(queries), step):
            answers: Any = self._server.call(
                "search",
                data=queries[start : start + step],
                anns_field="code",
                filter=where,
                limit=limit,
                output_fields=[],
                search_params={"metric_type": "HAMMING", "params": bounds or {}},
            )
            found += [
                _ordered(np.array(one.ids, dtype=np.int64), np.array(one.distances).astype(np.int32)) for one in answers
            ]
        return found


def _ordered(ids: NDArray[np.int64], distances: NDArray[np.int32]) -> Ranking:
    order = np.lexsort((ids, distances))
    return ids[order], distances[order]
