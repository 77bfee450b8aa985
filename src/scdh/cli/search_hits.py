"""Hits of a search: found, described with names and labels, and printed; ties at the end of a list are said."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scdh.cli.output import print_line, print_table
from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.index import HammingIndex
from scdh.index.ties import items_at, items_at_sum, tie_note

if TYPE_CHECKING:
    from scdh.cli.search_queries import SearchQueries
    from scdh.index.milvus import MilvusIndex

    AnyIndex = HammingIndex | MilvusIndex

DEFAULT_K = 10


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched, and how.

    Args:
        index: the items.
        k: nearest items (default: 10, or all within the radius).
        radius: only items at most this many bits away; None: any.
        allowed: ids that may be found; None: all.
        left_out: id that is no hit, because it is the query.
    """

    index: "AnyIndex"
    k: int | None
    radius: int | None
    allowed: np.ndarray | None
    left_out: int | None

    def find(self, queries: "SearchQueries") -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and distances of the hits of each query, by its real outputs u or its tables where it has some."""
        from scdh.index.search.rounds import ROUND

        is_file = isinstance(self.index, HammingIndex)
        # Progress for many queries; Milvus has none, because its hits come in batches from a server.
        codes = queries.codes
        options: dict[str, Any] = {"progress": True} if is_file and len(codes) > ROUND else {}
        if self.radius is not None:
            limit = self.k
            hits: Any = self.index.within(codes, self.radius, only=self.allowed, **options)
        else:
            limit = self.k or DEFAULT_K
            if queries.byte_tables is not None:
                options["byte_tables"] = queries.byte_tables
            elif queries.outputs is not None:
                options["weights"] = np.abs(queries.outputs)
            hits = self.index.search(codes, limit + (self.left_out is not None), only=self.allowed, **options)
        per_query = []
        for query_hits in hits:
            ids, distances = query_hits.ids, query_hits.distances
            others = slice(None) if self.left_out is None else ids != self.left_out
            per_query.append((ids[others][:limit], distances[others][:limit]))
        return per_query

    def note(self, queries: "SearchQueries", number: int, distances: np.ndarray) -> str:
        """What the list of one query's hits leaves out at its last distance; empty if nothing, or in Milvus; sums of
        outputs are hardly ever equal."""
        has_sums = queries.outputs is not None
        if not isinstance(self.index, HammingIndex) or not len(distances) or has_sums:
            return ""
        last, own = distances[-1].item(), slice(number, number + 1)
        if queries.byte_tables is not None:
            tables = queries.byte_tables(own)
            at_last = items_at_sum(self.index, queries.codes[own], tables, last, self.allowed)
            at_last -= self._is_left_out_at(last, queries.codes[own], tables)
            return tie_note(last, int((distances == last).sum()), at_last)
        at_last = int(items_at(self.index, queries.codes[own], [last], self.allowed)[0])
        if self.left_out is not None and last == 0 and (self.allowed is None or self.left_out in self.allowed):
            at_last -= 1
        return tie_note(last, int((distances == last).sum()), at_last)

    def _is_left_out_at(self, distance: float, query: Codes, tables: np.ndarray) -> bool:
        """Whether the item that is no hit is at this distance, and would be one."""
        if self.left_out is None or (self.allowed is not None and self.left_out not in self.allowed):
            return False
        assert isinstance(self.index, HammingIndex)
        (own,) = self.index.search(query, 1, byte_tables=tables, only=[self.left_out])
        return bool(own.distances[0] == distance)


def describe_hits(ids: np.ndarray, distances: np.ndarray, row_names: RowNames | None) -> list[dict[str, Any]]:
    """Rank, distance, id and, if known, name and label of one query's hits."""
    hits: list[dict[str, Any]] = []
    labelled = row_names is not None and row_names.labelled
    for rank, (row_id, distance) in enumerate(zip(ids.tolist(), distances.tolist(), strict=True), start=1):
        hit: dict[str, Any] = {"rank": rank, "distance": distance, "id": row_id}
        if row_names is not None:
            position = row_names.position(row_id)
            hit["name"] = "" if position is None else row_names.names[position]
            if labelled:
                hit["label"] = "" if position is None else row_names.label(position)
        hits.append(hit)
    return hits


def print_hits(title: str, hits: list[dict[str, Any]], note: str) -> None:
    """A table of one query's hits, and the note below it."""
    if not hits:
        print_line(f"{title}: nothing is that near.")
        return
    rows = [[f"{value:.4f}" if isinstance(value, float) else value for value in hit.values()] for hit in hits]
    print_table(list(hits[0]), rows, title=title, right=("rank", "distance", "id"))
    if note:
        print_line(note)
