"""An index on a Milvus server or cluster, or in a local file: the same hits as those of ``HammingIndex``.

A collection has two fields, ``id`` (int64, the primary key) and ``code`` (a binary vector, padded with zeros to whole
bytes); its description has the format, the bits and the metadata. Milvus compares every code (BIN_FLAT, HAMMING), but
returns any of several items at the last distance; here these are always the ones with the smallest ids.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.codes.arguments import check_metadata
from scdh.codes.checks import check_hamming_codes
from scdh.errors import CodesError, UnknownIdError, UnsupportedError
from scdh.index.arguments import check_all_known, check_all_new, check_distinct, id_row, whole_number
from scdh.index.byte_tables import ByteTables
from scdh.index.hits import Hits, RaggedHits
from scdh.index.milvus.collection import make_collection, open_collection
from scdh.index.milvus.contents import batches, count_rows, known_codes, known_ids, largest_id
from scdh.index.milvus.rankings import MOST_HITS, Rankings
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.index.milvus.uri import is_milvus_uri, parse_uri
from scdh.index.milvus.writing import choose_ids, write_codes
from scdh.index.search.queries import ROUND, query_rounds
from scdh.index.search.table_sums import rank_again
from scdh.index.search_index import Abilities
from scdh.index.weights import check_weights

__all__ = ["MilvusIndex", "is_milvus_uri"]

MOST_ONLY = 100_000


class MilvusIndex:
    """An exact index in a Milvus collection; made by ``create``, ``open`` or ``create_or_open``.

    A context manager that closes the connection at its end. Every method may raise ``ConfigError`` (the server cannot
    be reached or rejects the password) and ``CodesError`` (it rejects the request).

    Args:
        server: an open connection.
        bits: length of the codes.
        metadata: text by name that the collection carries.
    """

    abilities = Abilities(lists_ids=False, counts=False, byte_tables=False)

    def __init__(self, server: MilvusServer, bits: int, metadata: Mapping[str, str]) -> None:
        self._server = server
        self._bits = bits
        self._metadata = dict(metadata)

    @classmethod
    def create(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> "MilvusIndex":
        """A new, empty collection.

        Args:
            uri: the address of the collection, such as ``milvus://host/photos`` or ``milvus:codes.db/photos``.
            bits: the number of bits of each code.
            metadata: text by name that is stored with the collection, such as the fingerprint of the model.

        Raises:
            CodesError: if a collection of that name exists.
        """
        return cls._start(uri, bits, metadata, may_exist=False)

    @classmethod
    def create_or_open(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> "MilvusIndex":
        """The collection of that name, which must have these bits; a new one if none exists.

        ``uri``, ``bits`` and ``metadata`` are those of ``create``. An existing collection keeps its own metadata.
        """
        return cls._start(uri, bits, metadata, may_exist=True)

    @classmethod
    def open(cls, uri: str) -> "MilvusIndex":
        """A collection that ``create`` made, at the address ``uri``; any other is rejected."""
        with _closing_on_error(MilvusServer(parse_uri(uri))) as server:
            if not server.call("has_collection"):
                raise CodesError(f"There is no collection at {server.address.text}.")
            return cls(server, *open_collection(server))

    @classmethod
    def _start(cls, uri: str, bits: int, metadata: Mapping[str, str] | None, may_exist: bool) -> "MilvusIndex":
        bits, checked = whole_number(bits, "bits", least=1), check_metadata(metadata)
        with _closing_on_error(MilvusServer(parse_uri(uri))) as server:
            if not server.call("has_collection"):
                make_collection(server, bits, checked)
            elif not may_exist:
                raise CodesError(f"There already is a collection at {server.address.text}.")
            index = cls(server, *open_collection(server))
            if index.bits != bits:
                address = server.address.text
                raise CodesError(f"{address} holds codes of {index.bits} bits, but {bits} bits were expected.")
            return index

    @property
    def bits(self) -> int:
        """The number of bits of each code."""
        return self._bits

    @property
    def ids(self) -> NDArray[np.int64]:
        """Raises ``UnsupportedError``: a collection may hold far more ids than fit into one answer of Milvus."""
        raise UnsupportedError(
            "A Milvus collection cannot list all its ids; ask for the ids that you know.", "lists_ids"
        )

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata given to ``create``; a copy."""
        return dict(self._metadata)

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self._server.address.text

    def __len__(self) -> int:
        return count_rows(self._server)

    def __repr__(self) -> str:
        return f"MilvusIndex({self.shown}, {self.bits} bits)"

    def close(self) -> None:
        """End the connection; a local file can then be opened by other programs."""
        self._server.close()

    def __enter__(self) -> "MilvusIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether the index holds each of the ``ids`` int64 [m]: booleans [m]."""
        wanted = id_row(ids)
        return np.isin(wanted, known_ids(self._server, wanted))

    def codes_of(self, ids: ArrayLike) -> Codes:
        """The codes of the items with these ``ids``, int64 [m] or one id, in their order.

        Raises:
            UnknownIdError: if an id is unknown.
        """
        wanted = id_row(ids)
        stored_ids, packed = known_codes(self._server, np.unique(wanted), self.bits)
        missing = ~np.isin(wanted, stored_ids)
        if missing.any():
            state = f"it contains {count} other ids" if (count := len(self)) else "it is empty"
            unknown = wanted[missing]
            raise UnknownIdError(f"The index does not contain the id {unknown[0]}; {state}.", unknown)
        return Codes(packed[np.searchsorted(stored_ids, wanted)], self.bits, wanted, self._metadata)

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> NDArray[np.int64]:
        """Add codes. Only one program at a time should add: two could choose the same new id.

        Args:
            codes: m codes of the bits of the index.
            ids: int64 [m], all different and new. None takes the ids that the codes carry, or else the numbers after
                the largest id of the index.

        Returns:
            The ids of the new items, int64 [m].

        Raises:
            CodesError: if the codes or ids do not fit; then nothing is added.
        """
        check_hamming_codes(codes, "The codes to add", self.bits)
        first = largest_id(self._server) + 1 if ids is None and codes.ids is None else 0
        chosen = choose_ids(codes, ids, first)
        check_all_new(chosen, self.contains(chosen))
        write_codes(self._server, codes, chosen, compare=False)
        return chosen

    def upsert(self, codes: Codes, ids: ArrayLike | None = None) -> int:
        """Write all codes; codes that have the same ids are replaced. Doing it twice changes nothing.

        Args:
            codes: m codes of the bits of the index. They are sent in batches, each of which is sent again while Milvus
                is busy or cannot be reached.
            ids: int64 [m], all different. None takes the ids that the codes carry, or else 0 … m−1.

        Returns:
            The number of codes sent.
        """
        return write_codes(self._server, *self._check_codes(codes, ids), compare=False)

    def load(self, codes: Codes, ids: ArrayLike | None = None) -> int:
        """As ``upsert`` of ``codes`` and ``ids``, but reads each batch from Milvus first and sends only what differs.

        So an interrupted load is continued by the same call. Its progress is not recorded elsewhere, where it could be
        lost, or be wrong for a new collection. Reading a batch takes half as long as writing it; an empty collection
        is not read.
        """
        return write_codes(self._server, *self._check_codes(codes, ids), compare=len(self) > 0)

    def remove(self, ids: ArrayLike) -> None:
        """Remove the items with these ``ids``, int64 [m] or one; removes nothing if an id is unknown or repeated."""
        removed_ids = id_row(ids)
        check_distinct(removed_ids)
        check_all_known(removed_ids, self.contains(removed_ids))
        for part in batches(removed_ids):
            self._server.call("delete", ids=part.tolist(), tries=WRITE_TRIES)

    def search(
        self,
        query_codes: Codes,
        k: int = 10,
        *,
        weights: ArrayLike | None = None,
        byte_tables: ByteTables | None = None,
        candidates: int | None = None,
        only: ArrayLike | None = None,
        progress: bool = False,
    ) -> Hits:
        """The k nearest items of each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            k: the number of items for each query, 1 to 16,384; beyond n it gives all n.
            weights: as for ``HammingIndex.search``, but Milvus knows Hamming distances only: of each query the nearest
                ``candidates`` by these are fetched and then ranked, so an item beyond them is not found.
            candidates: with weights, how many, at least k (default: 10 · k and at least 1,000).
            byte_tables: must be None; Milvus cannot rank by them.
            only: ids int64 [m] of the items that may be found, up to 100,000; unknown ids are ignored. None: all.
            progress: whether to show progress on standard error.

        Returns:
            ``Hits`` with ids and distances [q, min(k, n)].
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        k = whole_number(k, "k", least=1)
        if byte_tables is not None:
            raise UnsupportedError("Milvus ranks by Hamming distance only; use an index file.", "byte_tables")
        if weights is not None:
            checked = check_weights(weights, query_codes)
            most = (
                min(MOST_HITS, max(10 * k, 1000)) if candidates is None else whole_number(candidates, "candidates", k)
            )
            return rank_again(
                self.search(query_codes, most, only=only, progress=progress), query_codes, checked, self.codes_of, k
            )
        allowed = self._allowed_ids(only)
        width = min(k, len(self) if allowed is None else len(allowed))
        if width > MOST_HITS:
            raise CodesError(f"Milvus gives at most {MOST_HITS} nearest items, got k = {k}; within has no such limit.")
        rankings = []
        for part in query_rounds(len(query_codes) if width else 0, width, ROUND, progress):
            rankings += Rankings(self._server, allowed).nearest(_vectors(query_codes[part]), width)
        ids = np.array([ids for ids, _ in rankings], dtype=np.int64).reshape(len(query_codes), width)
        distances = np.array([row for _, row in rankings], dtype=np.int32).reshape(len(query_codes), width)
        return Hits(ids, distances)

    def within(
        self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None, progress: bool = False
    ) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            radius: the largest distance, in bits, at least 0.
            only, progress: as for ``search``.
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        allowed = self._allowed_ids(only)
        if allowed is not None and len(allowed) == 0:
            # Milvus cannot read an empty list of ids.
            return RaggedHits(np.zeros(len(query_codes), np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
        rankings = []
        for part in query_rounds(len(query_codes), 1, ROUND, progress):
            rankings += Rankings(self._server, allowed).between(_vectors(query_codes[part]), 0, radius)
        counts = np.array([len(ids) for ids, _ in rankings], dtype=np.int64)
        ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in rankings)])
        distances = np.concatenate([np.empty(0, np.int32), *(row for _, row in rankings)])
        return RaggedHits(counts, ids, distances)

    def count_within(self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None) -> NDArray[np.int64]:
        """The number of hits of ``within`` for each query, int64 [q]; Milvus has to send all of them.

        Args:
            query_codes, radius, only: as for ``within``.
        """
        return self.within(query_codes, radius, only=only).counts

    def filter_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ``ids`` int64 [m] themselves, which ``only`` takes."""
        return ids

    def refresh(self) -> bool:
        """False: a search always sees the newest state of the collection."""
        return False

    def warm_up(self) -> None:
        """Do nothing; Milvus loads the collection when it is opened."""

    def _allowed_ids(self, only: ArrayLike | None) -> NDArray[np.int64] | None:
        if only is None:
            return None
        wanted = np.unique(id_row(only))
        if len(wanted) > MOST_ONLY:
            raise CodesError(f"A search in Milvus can be limited to at most {MOST_ONLY} ids, got {len(wanted)}.")
        return wanted[self.contains(wanted)]

    def _check_codes(self, codes: Codes, ids: ArrayLike | None) -> tuple[Codes, NDArray[np.int64]]:
        check_hamming_codes(codes, "The codes to write", self.bits)
        return codes, choose_ids(codes, ids, first=0)


@contextmanager
def _closing_on_error(server: MilvusServer) -> Iterator[MilvusServer]:
    try:
        yield server
    except BaseException:
        server.close()
        raise


def _vectors(codes: Codes) -> list[bytes]:
    return [bytes(row) for row in codes.packed]
