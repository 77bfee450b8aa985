"""Find, describe and print the hits of a search, with names, labels, and a note on ties at the end of a list."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from scdh.cli.output import print_line, print_table
from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.index.items import WithLabels
from scdh.index.search_index import SearchEngine, SearchIndex
from scdh.index.ties import items_at, items_at_sum, may_complete, order_ties, tie_note

if TYPE_CHECKING:
    from scdh.cli.search_queries import SearchQueries

DEFAULT_K = 10


@dataclass(frozen=True, eq=False)
class SearchRequest:
    """A search: the index and the options.

    Args:
        index: the items.
        k: nearest items (default: 10, or all within the radius).
        radius: only items at most this many bits away; None: any.
        allowed: what may be found, as ``only`` takes it; None: all.
        left_out: id to leave out, because it is the query.
        rescore: take this many times k items, and rank them by their vectors; None: do not.
    """

    index: SearchIndex
    k: int | None
    radius: int | None
    allowed: Any
    left_out: int | None
    rescore: int | None = None

    def find(self, queries: "SearchQueries") -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids and distances of the hits of each query, by its real outputs u or its tables where it has some."""
        from scdh.index.search.queries import ROUND

        codes = queries.codes
        options: dict[str, Any] = {"progress": len(codes) > ROUND}
        if self.radius is not None:
            limit = self.k
            hits: Any = self.index.within(codes, self.radius, only=self.allowed, **options)
        else:
            limit = self.k or DEFAULT_K
            if self.rescore is not None:
                options["rescore"] = self.rescore
            elif queries.byte_tables is not None:
                options["byte_tables"] = queries.byte_tables
            elif queries.outputs is not None:
                options["weights"] = np.abs(queries.outputs)
            hits = self.index.search(codes, limit + (self.left_out is not None), only=self.allowed, **options)
        per_query = []
        own_items = queries.own_items()
        completes = self.radius is None and may_complete(self.index, len(codes))
        for number, query_hits in enumerate(hits):
            ids, distances = query_hits.ids, query_hits.distances
            if queries.tie_weights is not None and distances.dtype.kind == "i":
                query = codes[number : number + 1], queries.tie_weights[number]
                ids, distances = order_ties(self.index, *query, ids, distances, self.allowed, completes=completes)
            others = slice(None) if self.left_out is None else ids != self.left_out
            ids, distances = ids[others], distances[others]
            if (own := own_items.get(number)) is not None and distances.dtype.kind == "i":
                ids, distances = self._own_first(own, codes[number : number + 1], ids, distances)
            per_query.append((ids[:limit], distances[:limit]))
        return per_query

    def _own_first(
        self, own: int, code: Codes, ids: np.ndarray, distances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The hits with the query's own item first, if its code is that of the query."""
        is_held = self.index.contains([own])[0] and self._may_find(own)
        if own == self.left_out or not is_held or (self.index.codes_of([own]).packed != code.packed).any():
            return ids, distances
        others = ids != own
        return np.append(own, ids[others]), np.append(distances.dtype.type(0), distances[others])

    def note(self, queries: "SearchQueries", number: int, distances: np.ndarray) -> str:
        """A sentence about items at the last distance that are not shown.

        Empty if all are shown, if the index cannot count fast, or with outputs or vectors, where hardly any are equal.
        """
        has_sums = queries.outputs is not None or self.rescore is not None
        if not self.index.abilities.counts or not len(distances) or has_sums:
            return ""
        last, own = distances[-1].item(), slice(number, number + 1)
        if queries.byte_tables is not None:
            tables = queries.byte_tables(own)
            at_last = items_at_sum(self.index, queries.codes[own], tables, last, self.allowed)
            at_last -= self._is_left_out_at(last, queries.codes[own], tables)
            return tie_note(last, int((distances == last).sum()), at_last)
        at_last = int(items_at(self.index, queries.codes[own], [last], self.allowed)[0])
        if self.left_out is not None and last == 0 and self._may_find(self.left_out):
            at_last -= 1
        return tie_note(last, int((distances == last).sum()), at_last, queries.tie_order)

    def _may_find(self, item_id: int) -> bool:
        if isinstance(self.allowed, WithLabels):
            (labels,) = cast(SearchEngine, self.index).items_of([item_id]).labels
            return not set(labels).isdisjoint(self.allowed.labels)
        return self.allowed is None or item_id in self.allowed

    def _is_left_out_at(self, distance: float, query: Codes, tables: np.ndarray) -> bool:
        """Whether the item to leave out is at this distance and may be found."""
        if self.left_out is None or not self._may_find(self.left_out):
            return False
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
