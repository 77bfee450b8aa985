"""Exact rankings from Milvus, which returns any of the items at the last distance.

Milvus gives the right distances of the ``limit`` nearest items, but only some of those at the last distance. So more
than k are requested, and where the k-th distance is still the last one, all items at exactly that distance are
requested (a range search), of which the smallest ids count. No answer may have more than ``MOST_HITS`` items; one that
has as many is requested again in two parts, below and above the middle of its ids, until each part is complete.
"""

from typing import Any

import numpy as np

from scdh.errors import CodesError
from scdh.index.engine_store import Ranking, ordered
from scdh.index.milvus.server import MilvusServer

MOST_HITS = 16_384  # Milvus rejects to give more
FIRST_HITS = 1_024  # requested first for many queries together, since most have fewer
_QUERIES = 128  # of one request; a busy server answers many more too late
_ANSWER_HITS = 1 << 18  # of all queries of one request, some 5 MB


class Rankings:
    """Rankings of the items of one collection that pass a filter of Milvus; an empty one passes all."""

    def __init__(self, server: MilvusServer, condition: str) -> None:
        self._server, self._filter = server, condition

    def nearest(self, queries: list[bytes], width: int) -> list[Ranking]:
        """The ``width`` nearest of each query, by (distance, id); there must be as many, and at most MOST_HITS."""
        limit = min(MOST_HITS, 2 * width + 64)
        rankings = self._request(queries, limit)
        cut: dict[int, list[int]] = {}
        for query, (ids, distances) in enumerate(rankings):
            if len(ids) < width:
                raise CodesError("The collection lost items while it was searched; search again.")
            if len(ids) == limit and distances[-1] == distances[width - 1]:
                cut.setdefault(int(distances[-1]), []).append(query)
        for distance, rows in cut.items():
            # At most ``width`` items at this distance are needed; all nearer ones are known.
            levels = self.between([queries[row] for row in rows], distance, distance, enough=width)
            for row, (ids, distances) in zip(rows, levels, strict=True):
                nearer = rankings[row][1] < distance
                rankings[row] = (
                    np.concatenate([rankings[row][0][nearer], ids]),
                    np.concatenate([rankings[row][1][nearer], distances]),
                )
        return [(ids[:width], distances[:width]) for ids, distances in rankings]

    def between(self, queries: list[bytes], low: int, high: int, enough: int | None = None) -> list[Ranking]:
        """All items at a distance of ``low`` … ``high``, by (distance, id).

        With ``enough``, the ones with the smallest ids are sufficient, at least that many.
        """
        # In Milvus, range_filter ≤ distance < radius; both are cut to whole numbers.
        bounds = {"radius": high + 1, "range_filter": low}
        rankings = self._request(queries, FIRST_HITS, bounds)
        for query, (ids, _) in enumerate(rankings):
            if len(ids) >= FIRST_HITS:
                rankings[query] = ordered(*self._complete(queries[query], bounds, [], enough))
        return rankings

    def _complete(self, query: bytes, bounds: dict[str, int], limits: list[str], enough: int | None) -> Ranking:
        """All of a query within bounds of distance and limits of id, in any order."""
        ids, distances = self._request([query], MOST_HITS, bounds, limits)[0]
        if len(ids) < MOST_HITS:
            return ids, distances
        # Each side has fewer items than both together, so this ends.
        middle = int(np.partition(ids, len(ids) // 2 - 1)[len(ids) // 2 - 1])
        ids, distances = self._complete(query, bounds, [*limits, f"id <= {middle}"], enough)
        if enough is not None and len(ids) >= enough:
            return ids, distances
        more, further = self._complete(query, bounds, [*limits, f"id > {middle}"], enough)
        return np.concatenate([ids, more]), np.concatenate([distances, further])

    def _request(
        self, queries: list[bytes], limit: int, bounds: dict[str, int] | None = None, limits: list[str] | None = None
    ) -> list[Ranking]:
        """At most ``limit`` items of each query, in requests whose answers are not too large."""
        step = max(1, min(_QUERIES, _ANSWER_HITS // limit))
        condition = " and ".join([*([self._filter] if self._filter else []), *(limits or [])])
        rankings: list[Ranking] = []
        for start in range(0, len(queries), step):
            answers: Any = self._server.call(
                "search",
                data=queries[start : start + step],
                anns_field="code",
                filter=condition,
                limit=limit,
                output_fields=[],
                search_params={"metric_type": "HAMMING", "params": bounds or {}},
            )
            for answer in answers:
                distances = np.array(answer.distances).astype(np.int32)
                rankings.append(ordered(np.array(answer.ids, dtype=np.int64), distances))
        return rankings
