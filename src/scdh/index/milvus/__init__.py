"""An index on a Milvus server or cluster, or in a local file: the same hits as those of ``HammingIndex``.

A collection has two fields, ``id`` (int64, the primary key) and ``code`` (a binary vector, padded with zeros to whole
bytes); its description has the format, the bits and the metadata. Milvus compares every code (BIN_FLAT, HAMMING), but
returns any of several items at the last distance; here these are always the ones with the smallest ids.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.code_arguments import check_metadata
from scdh.code_checks import check_hamming_codes
from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.arguments import id_row, whole_number
from scdh.index.hits import Hits, RaggedHits
from scdh.index.milvus.collection import make_collection, open_collection
from scdh.index.milvus.contents import batches, count_rows, known_codes, known_ids, largest_id
from scdh.index.milvus.rankings import MOST_HITS, Rankings
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.index.milvus.uri import is_milvus_uri, parse_uri
from scdh.index.milvus.writing import choose_ids, write_codes
from scdh.index.search.table_sums import rank_again
from scdh.index.segments import refuse_repeated
from scdh.index.weights import check_weights

__all__ = ["MilvusIndex", "is_milvus_uri"]

MOST_ONLY = 100_000


class MilvusIndex:
    """An exact index in a Milvus collection; made by ``create``, ``open`` or ``create_or_open``.

    A context manager that closes the connection at its end. Every method may raise ``ConfigError`` (the server cannot
    be reached or refuses the password) and ``CodesError`` (it refuses the request).

    Args:
        server: an open connection.
        bits: length of the codes.
        metadata: text by name that the collection carries.
    """

    def __init__(self, server: MilvusServer, bits: int, metadata: Mapping[str, str]) -> None:
        self._server, self._bits, self._metadata = server, bits, dict(metadata)

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
        """A collection that ``create`` made, at the address ``uri``; any other is refused."""
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
        """The codes of the items with these ``ids``, int64 [m] or one id, in their order; unknown ids are refused."""
        wanted = id_row(ids)
        stored_ids, packed = known_codes(self._server, np.unique(wanted), self.bits)
        missing = ~np.isin(wanted, stored_ids)
        if missing.any():
            state = f"it holds {count} others" if (count := len(self)) else "it is empty"
            raise CodesError(f"The index holds no id {wanted[missing][0]}; {state}.")
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
        known = chosen[self.contains(chosen)]
        if known.size:
            raise CodesError(f"The index already holds the id {known[0]} ({known.size} of the ids to add are known).")
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
        """Remove the items with these ``ids``, int64 [m] or one; refused as a whole if one is unknown or repeated."""
        removed_ids = id_row(ids)
        refuse_repeated(removed_ids)
        unknown = removed_ids[~self.contains(removed_ids)]
        if unknown.size:
            raise CodesError(f"The index holds no id {unknown[0]} ({unknown.size} of the ids to remove are unknown).")
        for part in batches(removed_ids):
            self._server.call("delete", ids=part.tolist(), tries=WRITE_TRIES)

    def search(
        self,
        query_codes: Codes,
        k: int = 10,
        *,
        weights: ArrayLike | None = None,
        candidates: int | None = None,
        only: ArrayLike | None = None,
    ) -> Hits:
        """The k nearest items of each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            k: the number of items for each query, 1 to 16,384; beyond n it gives all n.
            weights: as for ``HammingIndex.search``, but Milvus knows Hamming distances only: of each query the nearest
                ``candidates`` by these are fetched and then ranked, so an item beyond them is not found.
            candidates: with weights, how many, at least k (default: 10 · k and at least 1,000).
            only: ids int64 [m] of the items that may be found, up to 100,000; unknown ids are ignored. None: all.

        Returns:
            ``Hits`` with ids and distances [q, min(k, n)].
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        k = whole_number(k, "k", least=1)
        if weights is not None:
            checked = check_weights(weights, query_codes)
            most = (
                min(MOST_HITS, max(10 * k, 1000)) if candidates is None else whole_number(candidates, "candidates", k)
            )
            return rank_again(self.search(query_codes, most, only=only), query_codes, checked, self.codes_of, k)
        allowed = self._allowed_ids(only)
        width = min(k, len(self) if allowed is None else len(allowed))
        if width > MOST_HITS:
            raise CodesError(f"Milvus gives at most {MOST_HITS} nearest items, got k = {k}; within has no such limit.")
        rankings = Rankings(self._server, allowed).nearest(_vectors(query_codes), width) if width else []
        ids = np.array([ids for ids, _ in rankings], dtype=np.int64).reshape(len(query_codes), width)
        distances = np.array([row for _, row in rankings], dtype=np.int32).reshape(len(query_codes), width)
        return Hits(ids, distances)

    def within(self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            radius: the largest distance, in bits, at least 0.
            only: as for ``search``.
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        allowed = self._allowed_ids(only)
        if allowed is not None and len(allowed) == 0:
            # Milvus cannot read an empty list of ids.
            return RaggedHits(np.zeros(len(query_codes), np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
        rankings = Rankings(self._server, allowed).between(_vectors(query_codes), 0, radius)
        counts = np.array([len(ids) for ids, _ in rankings], dtype=np.int64)
        ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in rankings)])
        distances = np.concatenate([np.empty(0, np.int32), *(row for _, row in rankings)])
        return RaggedHits(counts, ids, distances)

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
