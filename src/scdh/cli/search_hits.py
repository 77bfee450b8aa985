"""Hits of a search: found, described with names and labels, and printed; ties at the end of a list are said."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scdh.cli.output import print_line, print_table
from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.index import HammingIndex
from scdh.index.ties import items_at, tie_note

if TYPE_CHECKING:
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

    def find(self, queries: Codes, outputs: np.ndarray | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and distances of the hits of each query, by its real outputs u if these are given."""
        from scdh.index.search.rounds import ROUND

        is_file = isinstance(self.index, HammingIndex)
        # Progress for many queries; Milvus has none, because its hits come in batches from a server.
        options: dict[str, Any] = {"progress": True} if is_file and len(queries) > ROUND else {}
        if self.radius is not None:
            limit = self.k
            hits: Any = self.index.within(queries, self.radius, only=self.allowed, **options)
        else:
            limit = self.k or DEFAULT_K
            if outputs is not None:
                options["weights"] = np.abs(outputs)
            hits = self.index.search(queries, limit + (self.left_out is not None), only=self.allowed, **options)
        per_query = []
        for query_hits in hits:
            ids, distances = query_hits.ids, query_hits.distances
            others = slice(None) if self.left_out is None else ids != self.left_out
            per_query.append((ids[others][:limit], distances[others][:limit]))
        return per_query

    def note(self, query: Codes, distances: np.ndarray) -> str:
        """What the list of one query's hits leaves out at its last distance; empty if nothing, or in Milvus; real
        distances are hardly ever equal."""
        if not isinstance(self.index, HammingIndex) or not len(distances) or distances.dtype.kind == "f":
            return ""
        last = int(distances[-1])
        at_last = int(items_at(self.index, query, [last], self.allowed)[0])
        if self.left_out is not None and last == 0 and (self.allowed is None or self.left_out in self.allowed):
            at_last -= 1
        return tie_note(last, int((distances == last).sum()), at_last)


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
