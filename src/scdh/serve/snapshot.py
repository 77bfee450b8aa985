"""One state of the index with its names; all parts of an answer come from the same state."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.errors import UnknownIdError, UnknownLabelError
from scdh.index.rescoring import RESCORE
from scdh.index.search_index import SearchEngine, SearchIndex
from scdh.index.ties import may_complete, order_ties
from scdh.printable import printable
from scdh.serve.request_errors import RequestError, invalid, unknown_item

KEPT_FILTERS = 16
# Hits that a search by radius may gather at once, before each list is cut to k.
GATHERED_HITS = 4 << 20
# Above this number of hits of a query, only those in the answer are gathered, and the others counted: gathering and
# sorting a million hits takes a quarter of a second, during which no other search is answered.
MANY_HITS = 100_000


Rank = Literal["bits", "outputs", "vectors"]
# Real outputs of queries → tables of a slice of them.
DistanceTables = Callable[[NDArray[np.float32]], Callable[[slice], NDArray[Any]]]


class SearchOptions(NamedTuple):
    """The options of a search; requests with equal options are answered by one search.

    Attributes:
        k: the most hits of a query.
        radius: only items at most this many bits away; None: any.
        labels: only items with one of these labels, as displayed; empty: all.
        rank: by the number of bits that differ; or, without a radius, by the query's real outputs or the vectors that
            the index keeps. Where the method has a distance of its own, that one ranks.
    """

    k: int
    radius: int | None = None
    labels: tuple[str, ...] = ()
    rank: Rank = "bits"


class SearchRequest(NamedTuple):
    """One request.

    Attributes:
        codes: q queries.
        options: for each of them.
        left_out: the id of the item that is the query, which is not a hit; None: all items may be hits.
        outputs: u [q, r] of the queries, where they rank the hits.
        tie_outputs: u [q, r] of the queries, where they order hits at the same distance.
    """

    codes: Codes
    options: SearchOptions
    left_out: int | None = None
    outputs: NDArray[np.float32] | None = None
    tie_outputs: NDArray[np.float32] | None = None


class QueryHits(NamedTuple):
    """The answer for one query, ready for JSON.

    Attributes:
        code: of the query, in hexadecimal digits.
        hits: ``{"id", "name", "labels", "distance"}`` of each, nearest first; distances are real numbers where outputs
            rank, else whole.
        total: the number of items within the radius; None without a radius.
    """

    code: str
    hits: list[dict[str, Any]]
    total: int | None


class _Hits(NamedTuple):
    """The hits of one query, nearest first; ``total`` as in :class:`QueryHits`."""

    ids: NDArray[np.int64]
    distances: NDArray[Any]
    total: int | None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An immutable index, and descriptions of its items.

    Args:
        index: the items.
        names: names and labels, possibly of more items than the index has; None: none are known.
        distance_tables: of the model, where its method ranks by a distance of its own: ``Hasher.distance_tables``.
    """

    index: SearchIndex
    names: RowNames | None
    distance_tables: DistanceTables | None = None
    _allowed: dict[tuple[str, ...], NDArray[Any]] = field(default_factory=dict, init=False, repr=False)

    def find(
        self,
        codes: Codes,
        options: SearchOptions,
        left_out: Sequence[int | None],
        outputs: NDArray[np.float32] | None = None,
        tie_outputs: Sequence[NDArray[np.float32] | None] = (),
    ) -> list[QueryHits]:
        """The hits of each query, without the id to leave out for it; by the outputs u [q, r] where they are given.

        ``tie_outputs`` has u [r] of each query, or None, to order hits at the same distance.
        """
        allowed = self._filter(options.labels) if options.labels else None
        shown = [row.tobytes().hex() for row in codes.packed]
        if options.radius is None:
            more = any(item_id is not None for item_id in left_out)
            if options.rank == "vectors":
                codes = self._with_vectors(codes, outputs)
            ranking = self._real_distances(options.rank, outputs)
            found = self.index.search(codes, options.k + more, only=allowed, **ranking)
            hits: Iterable[_Hits] = (_Hits(one.ids, one.distances, None) for one in found)
        else:
            hits = self._near(codes, options.radius, options.k, left_out, allowed)
        if any(u is not None for u in tie_outputs):
            completes = options.radius is None and may_complete(self.index, len(codes))
            hits = [
                one if u is None else self._with_ordered_ties(one, codes[place : place + 1], u, allowed, completes)
                for place, (one, u) in enumerate(zip(hits, tie_outputs, strict=True))
            ]
        queries = zip(shown, hits, left_out, strict=True)
        return [self._found(code, one, options.k, item_id) for code, one, item_id in queries]

    def _with_ordered_ties(
        self, hits: _Hits, code: Codes, u: NDArray[np.float32], allowed: NDArray[Any] | None, completes: bool
    ) -> _Hits:
        ordered = order_ties(self.index, code, np.abs(u), hits.ids, hits.distances, allowed, completes=completes)
        return _Hits(*ordered, hits.total)

    def _with_vectors(self, codes: Codes, outputs: NDArray[np.float32] | None) -> Codes:
        """The queries with their outputs as vectors; RequestError 422 if the index does not keep the items' outputs."""
        kind = self.index.vector_kind
        if kind is None or kind[1] != codes.bits:
            raise invalid("This index keeps no outputs of its items to rank by; leave 'rank' out.")
        return codes.with_vectors(outputs, "float16")

    def _real_distances(self, rank: Rank, outputs: NDArray[np.float32] | None) -> dict[str, Any]:
        """The arguments for rankings by real distances."""
        if rank == "vectors":
            return {"rescore": RESCORE}
        if outputs is None:
            return {}
        if self.distance_tables is not None:
            return {"byte_tables": self.distance_tables(outputs)}
        return {"weights": np.abs(outputs)}

    def _found(self, code: str, hits: _Hits, k: int, left_out: int | None) -> QueryHits:
        ids, distances, total = hits
        if left_out is not None:
            others = ids != left_out
            ids, distances = ids[others], distances[others]
            total = None if total is None else len(ids)
        items = self.describe(ids[:k])
        for item, distance in zip(items, distances[:k].tolist(), strict=True):
            item["distance"] = distance
        return QueryHits(code, items, total)

    def _near(self, codes: Codes, radius: int, k: int, left_out: Sequence[int | None], allowed: Any) -> Iterator[_Hits]:
        """The items within the radius of each query, or the first k of many; few at once, as all may be near."""
        has_many = False
        start = 0
        step = 1
        while start < len(codes):
            part = codes[start : start + step]
            # The item that is left out must be among the gathered ones, so all of them are gathered.
            if has_many and left_out[start] is None and self.index.abilities.counts:
                part = codes[start : start + 1]
                (first,) = self.index.search(part, k, only=allowed)
                is_near = first.distances <= radius
                (total,) = self.index.count_within(part, radius, only=allowed).tolist()
                yield _Hits(first.ids[is_near], first.distances[is_near], total)
            else:
                near = self.index.within(part, radius, only=allowed)
                has_many = int(near.counts.max()) >= MANY_HITS
                yield from (_Hits(one.ids, one.distances, len(one.ids)) for one in near)
            start += len(part)
            step = max(1, GATHERED_HITS // max(1, len(self.index)))

    def code_of(self, item_id: int) -> Codes:
        """The code of an item; RequestError 404 if it does not exist."""
        if not -(1 << 63) <= item_id < 1 << 63:
            raise unknown_item(item_id)
        try:
            return self.index.codes_of([item_id])
        except UnknownIdError:
            raise unknown_item(item_id) from None

    def holds(self, item_id: int) -> bool:
        """Whether there is such an item."""
        try:
            return len(self.code_of(item_id)) == 1
        except RequestError:
            return False

    def describe(self, ids: NDArray[np.int64]) -> list[dict[str, Any]]:
        """``{"id", "name", "labels"}`` of items; an empty name where none is known. Texts are safe to show."""
        names = self.names
        if (engine := self._name_store) is not None:
            stored = engine.items_of(ids)
            rows = zip(ids.tolist(), map(printable, stored.names), stored.labels, strict=True)
            return [{"id": item_id, "name": name, "labels": list(map(printable, own))} for item_id, name, own in rows]
        if names is None:
            return [{"id": item_id, "name": "", "labels": []} for item_id in ids.tolist()]
        items = []
        for item_id, row in zip(ids.tolist(), names.positions_of(ids).tolist(), strict=True):
            name = printable(names.names[row]) if row >= 0 else ""
            labels = [printable(label) for label in names.label_list(row)] if row >= 0 else []
            items.append({"id": item_id, "name": name, "labels": labels})
        return items

    def name_of(self, item_id: int) -> str | None:
        """The name of an item as it is stored, not made safe; None where none is known."""
        if (engine := self._name_store) is not None:
            return engine.items_of([item_id]).names[0] or None
        position = None if self.names is None else self.names.position(item_id)
        return None if self.names is None or position is None else self.names.names[position]

    @property
    def _name_store(self) -> SearchEngine | None:
        """The search engine whose own names and labels are shown; None if others were given, or it stores none."""
        return cast(SearchEngine, self.index) if self.names is None and self.index.abilities.names else None

    def label_counts(self) -> dict[str, int]:
        """Number of items by label as it is shown; empty for the labels that a search engine stores.

        If the index cannot list its ids, all items that have a name are counted.
        """
        if self.names is None:
            return {}
        labels, count = self._held_labels, len(self.names.label_names)
        counts = np.bincount(labels[labels >= 0], minlength=count) if labels.ndim == 1 else labels.sum(0, np.int64)
        shown: dict[str, int] = {}
        for label, number in zip(self.names.label_names, counts.tolist(), strict=True):
            if number:
                shown[printable(label)] = shown.get(printable(label), 0) + number
        return shown

    @cached_property
    def _held_labels(self) -> NDArray[Any]:
        """Labels without those of items that were removed, whose names stay until their id is given again."""
        assert self.names is not None
        if not self.index.abilities.lists_ids:
            return self.names.labels
        ids = self.index.ids
        return self.names.labels[slice(None) if np.array_equal(self.names.ids, ids) else np.isin(self.names.ids, ids)]

    def ids_with_labels(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Return the ids with one of the displayed labels, possibly including removed items.

        Raises:
            RequestError: 422 if a label does not exist.
        """
        if self.names is None or not self.names.labelled:
            raise invalid("The items of this index have no labels to filter by.")
        wanted = [label for label in self.names.label_names if printable(label) in labels]
        unknown = set(labels) - {printable(label) for label in wanted}
        if unknown:
            raise invalid(f"No item has the label {min(unknown)!r}.")
        return self.names.ids_with_labels(wanted)

    def ids_with_name(self, text: str) -> NDArray[np.int64]:
        """Return the ids of the items whose displayed name contains ``text``, in upper or lower case."""
        if self.names is None:
            raise invalid("The items of this index have no names to find them by.")
        wanted = text.casefold()
        rows = [row for row, name in enumerate(self.names.names) if wanted in printable(name).casefold()]
        ids = self.names.ids[rows]
        return ids[self.index.contains(ids)] if len(ids) else ids

    def _filter(self, labels: tuple[str, ...]) -> Any:
        """The items with these labels, as the index takes them in ``only``."""
        if labels in self._allowed:
            return self._allowed[labels]
        if (engine := self._name_store) is not None:
            try:
                return engine.with_labels(labels)
            except UnknownLabelError as error:
                raise invalid(str(error)) from None
        allowed = self.index.filter_of(self.ids_with_labels(labels))
        if len(self._allowed) >= KEPT_FILTERS:
            self._allowed.clear()
        self._allowed[labels] = allowed
        return allowed


def find_all(snapshot: Snapshot, requests: Sequence[SearchRequest]) -> list[list[QueryHits] | BaseException]:
    """The hits of many requests, equal questions in one search; an error in one does not affect the others."""
    groups: dict[SearchOptions, list[int]] = {}
    for place, one in enumerate(requests):
        groups.setdefault(one.options, []).append(place)
    answers: list[list[QueryHits] | BaseException] = [[] for _ in requests]
    for options, places in groups.items():
        parts = [requests[place] for place in places]
        packed = np.concatenate([part.codes.packed for part in parts])
        left_out = [part.left_out for part in parts for _ in range(len(part.codes))]
        # Equal questions have the same ranking, so either all have outputs or none.
        given = [part.outputs for part in parts if part.outputs is not None]
        outputs = np.concatenate(given) if given else None
        ties = [
            u
            for part in parts
            for u in (part.tie_outputs if part.tie_outputs is not None else [None] * len(part.codes))
        ]
        try:
            codes = Codes(packed, parts[0].codes.bits, metadata=parts[0].codes.metadata)
            found = iter(snapshot.find(codes, options, left_out, outputs, ties))
            for place in places:
                answers[place] = list(islice(found, len(requests[place].codes)))
        except Exception as error:
            for place in places:
                answers[place] = error
    return answers
