"""The index in a search engine: the parts that all engines share. Their differences are in a ``Store``."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.codes.arguments import check_ids, check_metadata
from scdh.codes.checks import check_hamming_codes
from scdh.errors import CodesError, UnknownIdError, UnknownLabelError, UnsupportedError
from scdh.index.arguments import check_all_known, check_all_new, check_distinct, id_row, ids_after, whole_number
from scdh.index.byte_tables import ByteTables
from scdh.index.engine_store import Condition, Ranking, Store, describe, read_description
from scdh.index.hits import Hits, RaggedHits
from scdh.index.items import Items, WithLabels, check_items, is_storable
from scdh.index.search.queries import ROUND, query_rounds
from scdh.index.search.table_sums import rank_again
from scdh.index.search_index import Abilities
from scdh.index.weights import check_weights
from scdh.progress import track

MOST_ONLY = 100_000
NAMES_AT_ONCE = 1_000  # of one request; Milvus answers with at most 16,384 items
BATCH_BYTES = 16 << 20
_SMALLEST_ID = np.iinfo(np.int64).min


class EngineIndex:
    """An exact index in a search engine; made by ``create``, ``open`` or ``create_or_open``.

    A context manager that closes the connection at its end. Every method may raise ``ConfigError`` (the engine cannot
    be reached or rejects the password) and ``CodesError`` (it rejects the request).

    Args:
        store: an open connection.
        bits: length of the codes.
        metadata: text by name that is stored with the codes.
    """

    abilities: ClassVar[Abilities]
    ENGINE: ClassVar[str]
    KIND: ClassVar[str] = "table"
    MOST_HITS: ClassVar[int | None] = None
    BATCH_ROWS: ClassVar[int] = 100_000

    def __init__(self, store: Store, bits: int, metadata: Mapping[str, str]) -> None:
        self._store, self._bits, self._metadata = store, bits, dict(metadata)

    @classmethod
    def _connect(cls, uri: str) -> Store:
        raise NotImplementedError

    @classmethod
    def create(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> Self:
        """A new, empty index.

        Args:
            uri: the address.
            bits: the number of bits of each code.
            metadata: text by name that is stored with the codes, such as the fingerprint of the model.

        Raises:
            CodesError: if something of that name exists.
        """
        return cls._start(uri, bits, metadata, may_exist=False)

    @classmethod
    def create_or_open(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> Self:
        """The index of that name, which must have these bits; a new one if none exists.

        ``uri``, ``bits`` and ``metadata`` are those of ``create``. An existing index keeps its own metadata.
        """
        return cls._start(uri, bits, metadata, may_exist=True)

    @classmethod
    def open(cls, uri: str) -> Self:
        """An index that ``create`` made, at the address ``uri``; anything else is rejected."""
        return cls._open(cls._connect(uri))

    @classmethod
    def _open(cls, store: Store) -> Self:
        try:
            if not store.exists():
                raise CodesError(f"There is no {cls.KIND} at {store.shown}.")
            bits, metadata = read_description(store.description(), f"The {cls.KIND} at {store.shown}")
            store.prepare(bits)
            return cls(store, bits, metadata)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _start(cls, uri: str, bits: int, metadata: Mapping[str, str] | None, may_exist: bool) -> Self:
        bits, checked = whole_number(bits, "bits", least=1), check_metadata(metadata)
        store = cls._connect(uri)
        try:
            if not store.exists():
                store.make(bits, describe(bits, checked))
            elif not may_exist:
                raise CodesError(f"There already is a {cls.KIND} at {store.shown}.")
        except BaseException:
            store.close()
            raise
        index = cls._open(store)
        if index.bits != bits:
            index.close()
            raise CodesError(f"{store.shown} holds codes of {index.bits} bits, but {bits} bits were expected.")
        return index

    @property
    def bits(self) -> int:
        """The number of bits of each code."""
        return self._bits

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, int64 [n] in ascending order; raises ``UnsupportedError`` if the engine cannot list them."""
        if not self.abilities.lists_ids:
            raise UnsupportedError(
                f"A {self.ENGINE} {self.KIND} cannot list all its ids; ask for the ids that you know.", "lists_ids"
            )
        return self._store.ids()

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata given to ``create``; a copy."""
        return dict(self._metadata)

    @property
    def vector_kind(self) -> None:
        """None: engines keep no vectors of the items."""
        return None

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self._store.shown

    def __len__(self) -> int:
        return self._store.count()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown}, {self.bits} bits)"

    def close(self) -> None:
        """End the connection."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether the index holds each of the ``ids`` int64 [m]: booleans [m]."""
        wanted = id_row(ids)
        return np.isin(wanted, self._store.known_ids(wanted))

    def codes_of(self, ids: ArrayLike) -> Codes:
        """The codes of the items with these ``ids``, int64 [m] or one id, in their order.

        Raises:
            UnknownIdError: if an id is unknown.
        """
        wanted = id_row(ids)
        stored_ids, packed = self._store.known_codes(np.unique(wanted))
        missing = ~np.isin(wanted, stored_ids)
        if missing.any():
            state = f"it contains {count} other ids" if (count := len(self)) else "it is empty"
            unknown = wanted[missing]
            raise UnknownIdError(f"The index does not contain the id {unknown[0]}; {state}.", unknown)
        return Codes(packed[np.searchsorted(stored_ids, wanted)], self.bits, wanted, self._metadata)

    def items_of(self, ids: ArrayLike) -> Items:
        """Names and labels of the items with these ``ids``, int64 [m], in their order; empty ones of unknown ids."""
        wanted = id_row(ids)
        stored_ids, items = self._store.known_items(np.unique(wanted))
        rows = {item_id: row for row, item_id in enumerate(stored_ids.tolist())}
        found = [rows.get(item_id) for item_id in wanted.tolist()]
        return Items(
            ["" if row is None else items.names[row] for row in found],
            [() if row is None else items.labels[row] for row in found],
        )

    def named(self, names: Sequence[str]) -> dict[int, str]:
        """The items that have one of these ``names``: name by id."""
        wanted = sorted({name for name in names if name and is_storable(name)})
        found: dict[int, str] = {}
        for start in range(0, len(wanted), NAMES_AT_ONCE):
            found |= self._store.named(wanted[start : start + NAMES_AT_ONCE])
        return found

    def with_labels(self, labels: Sequence[str]) -> WithLabels:
        """A value of ``only``: items that have at least one of these ``labels``; the engine filters.

        Raises:
            UnknownLabelError: if no item has one of the labels.
        """
        for label in labels:
            if not self._store.count(WithLabels((label,))):
                raise UnknownLabelError(f"No item of {self.shown} has the label {label!r}.")
        return WithLabels(tuple(labels))

    def add(self, codes: Codes, ids: ArrayLike | None = None, items: Items | None = None) -> NDArray[np.int64]:
        """Add codes. Only one program at a time should add, except to PostgreSQL, which locks the table.

        Args:
            codes: m codes of the bits of the index.
            ids: int64 [m], all different and new. None takes the ids that the codes carry, or else the numbers after
                the largest id of the index.
            items: their names and labels; None: they have none.

        Returns:
            The ids of the new items, int64 [m].

        Raises:
            CodesError: if the codes or ids do not fit; then nothing is added.
        """
        check_hamming_codes(codes, "The codes to add", self.bits)
        items = check_items(items, len(codes))
        with self._store.writing():
            first = self._store.largest_id() + 1 if ids is None and codes.ids is None else 0
            chosen = choose_ids(codes, ids, first)
            check_all_new(chosen, self.contains(chosen))
            self._write(codes, chosen, items, compare=False)
        return chosen

    def load(self, codes: Codes, ids: ArrayLike | None = None, items: Items | None = None) -> int:
        """Write all codes, replacing those with the same ids; only those that are missing or differ are written.

        So an interrupted load is continued by the same call. Progress is not recorded elsewhere, where it could be lost
        or refer to an earlier collection.

        Args:
            codes: m codes of the bits of the index, written in batches.
            ids: int64 [m], all different. None takes the ids that the codes carry, or else 0 … m−1.
            items: their names and labels; None: they have none.

        Returns:
            The number of codes written.
        """
        check_hamming_codes(codes, "The codes to write", self.bits)
        chosen, items = choose_ids(codes, ids, first=0), check_items(items, len(codes))
        return self._write(codes, chosen, items, compare=len(self) > 0)

    def _write(self, codes: Codes, ids: NDArray[np.int64], items: Items, *, compare: bool) -> int:
        rows = min(self.BATCH_ROWS, max(1, BATCH_BYTES // codes.packed.shape[1]))
        starts = range(0, len(codes), rows)
        written = 0
        for start in track(starts, len(codes), "loading", "codes", lambda start: min(rows, len(codes) - start)):
            part = slice(start, start + rows)
            own = Items(items.names[part], items.labels[part])
            written += self._store.write(ids[part], codes.packed[part], own, compare)
        return written

    def remove(self, ids: ArrayLike) -> None:
        """Remove the items with these ``ids``, int64 [m] or one; removes nothing if an id is unknown or repeated."""
        removed_ids = id_row(ids)
        check_distinct(removed_ids)
        with self._store.writing():
            check_all_known(removed_ids, self.contains(removed_ids))
            self._store.remove(removed_ids)

    def search(
        self,
        query_codes: Codes,
        k: int = 10,
        *,
        weights: ArrayLike | None = None,
        byte_tables: ByteTables | None = None,
        candidates: int | None = None,
        only: ArrayLike | WithLabels | None = None,
        progress: bool = False,
    ) -> Hits:
        """The k nearest items of each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            k: the number of items for each query, at least 1; beyond n it gives all n. Milvus takes up to 16,384.
            weights: as for ``HammingIndex.search``, but engines support Hamming distances only: for each query the
                ``candidates`` nearest items are fetched and then ranked, so items beyond them are not found.
            candidates: with weights, how many, at least k (default: 10 · k and at least 1,000).
            byte_tables: must be None; engines cannot rank by them.
            only: ids int64 [m] of the items that may be found, up to 100,000; unknown ids are ignored. Or what
                ``with_labels`` gives. None: all.
            progress: whether to show progress on standard error.

        Returns:
            ``Hits`` with ids and distances [q, min(k, n)].
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        k = whole_number(k, "k", least=1)
        if byte_tables is not None:
            raise UnsupportedError(f"{self.ENGINE} ranks by Hamming distance only; use an index file.", "byte_tables")
        if weights is not None:
            checked = check_weights(weights, query_codes)
            most = max(10 * k, 1000) if candidates is None else whole_number(candidates, "candidates", k)
            if candidates is None and self.MOST_HITS is not None:
                most = min(self.MOST_HITS, most)
            return rank_again(
                self.search(query_codes, most, only=only, progress=progress), query_codes, checked, self.codes_of, k
            )
        condition = self._condition(only)
        if self.MOST_HITS is not None and k > self.MOST_HITS and self._store.count(condition) > self.MOST_HITS:
            raise CodesError(
                f"{self.ENGINE} gives at most {self.MOST_HITS} nearest items, got k = {k}; within has no such limit."
            )
        rankings: list[Ranking] = []
        for part in query_rounds(len(query_codes), k, ROUND, progress):
            rankings += self._store.nearest(query_codes.packed[part], k, condition)
        if not rankings:
            width = min(k, self._store.count(condition))
            return Hits(np.empty((0, width), np.int64), np.empty((0, width), np.int32))
        # All queries have the same number of hits unless another program removes items in between.
        width = min(len(ids) for ids, _ in rankings)
        return Hits(
            np.stack([ids[:width] for ids, _ in rankings]), np.stack([distances[:width] for _, distances in rankings])
        )

    def within(
        self,
        query_codes: Codes,
        radius: int = 2,
        *,
        only: ArrayLike | WithLabels | None = None,
        progress: bool = False,
    ) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            radius: the largest distance, in bits, at least 0.
            only, progress: as for ``search``.
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        condition = self._condition(only)
        rankings: list[Ranking] = []
        for part in query_rounds(len(query_codes), 1, ROUND, progress):
            rankings += self._store.within(query_codes.packed[part], radius, condition)
        counts = np.array([len(ids) for ids, _ in rankings], dtype=np.int64)
        ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in rankings)])
        distances = np.concatenate([np.empty(0, np.int32), *(row for _, row in rankings)])
        return RaggedHits(counts, ids, distances)

    def count_within(
        self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | WithLabels | None = None
    ) -> NDArray[np.int64]:
        """The number of hits of ``within`` for each query, int64 [q]; only PostgreSQL counts without sending them.

        Args:
            query_codes, radius, only: as for ``within``.
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        return self._store.count_within(query_codes.packed, radius, self._condition(only))

    def filter_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ``ids`` int64 [m] themselves, which ``only`` takes."""
        return ids

    def refresh(self) -> bool:
        """False: a search always sees the newest state."""
        return False

    def warm_up(self) -> None:
        """Do nothing; the engine prepares searches when the index is opened."""

    def _condition(self, only: ArrayLike | WithLabels | None) -> Condition:
        if only is None or isinstance(only, WithLabels):
            return only
        wanted = np.unique(id_row(only))
        if len(wanted) > MOST_ONLY:
            raise CodesError(f"A search in {self.ENGINE} can be limited to at most {MOST_ONLY} ids, got {len(wanted)}.")
        return wanted


def choose_ids(codes: Codes, ids: ArrayLike | None, first: int) -> NDArray[np.int64]:
    """The ids given, those that the codes carry, or the numbers from ``first`` on."""
    chosen = codes.ids if ids is None else check_ids(ids, len(codes))
    if chosen is None:
        return ids_after(first - 1, len(codes))
    if chosen.size and chosen.min() == _SMALLEST_ID:
        # Filters of Milvus and LanceDB parse the number without its sign first, and it then does not fit into 64 bits.
        raise CodesError(f"Search engines cannot look for the id {_SMALLEST_ID}; choose another one.")
    check_distinct(chosen)
    return chosen
