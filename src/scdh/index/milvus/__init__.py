"""An index on a Milvus server or cluster, or in a local file: the same answers as those of ``HammingIndex``.

A collection has two fields, ``id`` (int64, the primary key) and ``code`` (a binary vector, padded with zeros to whole
bytes); its description says that it is ours, the bits and the metadata. Milvus compares every code (BIN_FLAT,
HAMMING), but which of several items at the same distance it returns at the cut is left to chance; here it never is.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.code_arguments import check_ids, check_metadata
from scdh.code_checks import check_hamming_codes
from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.arguments import id_row, whole_number
from scdh.index.hits import Hits, RaggedHits
from scdh.index.milvus.collection import make_collection, open_collection
from scdh.index.milvus.contents import BATCH_ROWS, batches, codes_in, count_rows, ids_in, largest_id
from scdh.index.milvus.ranks import MOST_HITS, Ranks
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.index.milvus.uri import is_milvus_uri, parse_uri
from scdh.index.segments import refuse_repeated
from scdh.progress import track

__all__ = ["MilvusIndex", "is_milvus_uri"]

BATCH_BYTES = 16 << 20  # a gRPC message to Milvus may have 64 MB
MOST_ONLY = 100_000
_SMALLEST = np.iinfo(np.int64).min
_LARGEST = np.iinfo(np.int64).max


class MilvusIndex:
    """An exact index in a Milvus collection; made by ``create``, ``open`` or ``create_or_open``."""

    def __init__(self, server: MilvusServer, bits: int, metadata: Mapping[str, str]) -> None:
        self._server, self._bits, self._metadata = server, bits, dict(metadata)

    @classmethod
    def create(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> "MilvusIndex":
        """A new, empty collection; one of that name must not be there."""
        return cls._start(uri, bits, metadata, may_exist=False)

    @classmethod
    def create_or_open(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> "MilvusIndex":
        """The collection of that name if there is one, which must have these bits, and otherwise a new one.

        The metadata of a collection that is there stay as they are.
        """
        return cls._start(uri, bits, metadata, may_exist=True)

    @classmethod
    def open(cls, uri: str) -> "MilvusIndex":
        """A collection that ``create`` made; anything else is refused with one sentence."""
        with _closing_on_error(MilvusServer(parse_uri(uri))) as server:
            if not server.call("has_collection"):
                raise CodesError(f"There is no collection at {server.address.shown}.")
            return cls(server, *open_collection(server))

    @classmethod
    def _start(cls, uri: str, bits: int, metadata: Mapping[str, str] | None, may_exist: bool) -> "MilvusIndex":
        bits, words = whole_number(bits, "bits", least=1), check_metadata(metadata)
        with _closing_on_error(MilvusServer(parse_uri(uri))) as server:
            if not server.call("has_collection"):
                make_collection(server, bits, words)
            elif not may_exist:
                raise CodesError(f"There already is a collection at {server.address.shown}.")
            index = cls(server, *open_collection(server))
            if index.bits != bits:
                shown = server.address.shown
                raise CodesError(f"{shown} holds codes of {index.bits} bits, but {bits} bits were expected.")
            return index

    @property
    def bits(self) -> int:
        return self._bits

    @property
    def metadata(self) -> dict[str, str]:
        """What was given to ``create``, such as the fingerprint of the model."""
        return dict(self._metadata)

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self._server.address.shown

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
        """Of each id, whether the index holds it."""
        asked = id_row(ids)
        return np.isin(asked, ids_in(self._server, asked))

    def codes_of(self, ids: ArrayLike) -> Codes:
        """The codes of these ids, in their order."""
        asked = id_row(ids)
        held, packed = codes_in(self._server, np.unique(asked), self.bits)
        missing = ~np.isin(asked, held)
        if missing.any():
            state = f"it holds {count} others" if (count := len(self)) else "it is empty"
            raise CodesError(f"The index holds no id {asked[missing][0]}; {state}.")
        return Codes(packed[np.searchsorted(held, asked)], self.bits, asked, self._metadata)

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Add codes; without ids (given, or carried by the codes) they count on from the largest one.

        Only one program at a time should add: between looking for an id and writing it, another could take it.
        """
        check_hamming_codes(codes, "The codes to add", self.bits)
        first = largest_id(self._server) + 1 if ids is None and codes.ids is None else 0
        chosen = _choose_ids(codes, ids, first)
        known = chosen[self.contains(chosen)]
        if known.size:
            raise CodesError(f"The index already holds the id {known[0]} ({known.size} of the ids to add are known).")
        self._write(codes, chosen, compare=False)

    def upsert(self, codes: Codes, ids: ArrayLike | None = None) -> int:
        """Write all codes, over those that have the same ids; the number of codes sent.

        Without ids (given, or carried by the codes) these are 0 … n−1. Sent in batches, each of which is sent again
        while Milvus is busy or away. Doing it twice changes nothing.
        """
        return self._write(*self._to_write(codes, ids), compare=False)

    def load(self, codes: Codes, ids: ArrayLike | None = None) -> int:
        """As ``upsert``, but first asks Milvus for each batch, and sends only what is missing or different.

        So an interrupted load is continued by the same call. Nothing about its progress is kept beside the data,
        where it could be lost, or be wrong after a collection was made anew: what Milvus holds is the only truth.
        Reading a batch takes half as long as writing it, and leaves no second copy; an empty collection is not asked.
        """
        return self._write(*self._to_write(codes, ids), compare=len(self) > 0)

    def remove(self, ids: ArrayLike) -> None:
        """Remove these ids; if one of them is unknown or given twice, nothing is removed."""
        gone = id_row(ids)
        refuse_repeated(gone)
        unknown = gone[~self.contains(gone)]
        if unknown.size:
            raise CodesError(f"The index holds no id {unknown[0]} ({unknown.size} of the ids to remove are unknown).")
        for part in batches(gone):
            self._server.call("delete", ids=part.tolist(), tries=WRITE_TRIES)

    def search(self, query_codes: Codes, k: int = 10, *, only: ArrayLike | None = None) -> Hits:
        """The k nearest items of each query, ordered by (distance, id); k beyond n gives all n.

        ``only`` limits the answer to these ids; those the index does not hold are passed over.
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        k = whole_number(k, "k", least=1)
        chosen = self._chosen(only)
        width = min(k, len(self) if chosen is None else len(chosen))
        if width > MOST_HITS:
            raise CodesError(f"Milvus gives at most {MOST_HITS} nearest items, got k = {k}; within has no such limit.")
        found = Ranks(self._server, chosen).nearest(_queries(query_codes), width) if width else []
        ids = np.array([one for one, _ in found], dtype=np.int64).reshape(len(query_codes), width)
        distances = np.array([one for _, one in found], dtype=np.int32).reshape(len(query_codes), width)
        return Hits(ids, distances)

    def within(self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id)."""
        check_hamming_codes(query_codes, "The queries", self.bits)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        chosen = self._chosen(only)
        if chosen is not None and len(chosen) == 0:
            # Milvus cannot read an empty list of ids.
            return RaggedHits(np.zeros(len(query_codes), np.int64), np.empty(0, np.int64), np.empty(0, np.int32))
        found = Ranks(self._server, chosen).between(_queries(query_codes), 0, radius)
        counts = np.array([len(ids) for ids, _ in found], dtype=np.int64)
        ids = np.concatenate([np.empty(0, np.int64), *(one for one, _ in found)])
        distances = np.concatenate([np.empty(0, np.int32), *(one for _, one in found)])
        return RaggedHits(counts, ids, distances)

    def _chosen(self, only: ArrayLike | None) -> NDArray[np.int64] | None:
        if only is None:
            return None
        wanted = np.unique(id_row(only))
        if len(wanted) > MOST_ONLY:
            raise CodesError(f"A search in Milvus can be limited to at most {MOST_ONLY} ids, got {len(wanted)}.")
        return wanted[self.contains(wanted)]

    def _to_write(self, codes: Codes, ids: ArrayLike | None) -> tuple[Codes, NDArray[np.int64]]:
        check_hamming_codes(codes, "The codes to write", self.bits)
        return codes, _choose_ids(codes, ids, first=0)

    def _write(self, codes: Codes, ids: NDArray[np.int64], compare: bool) -> int:
        rows = min(BATCH_ROWS, max(1, BATCH_BYTES // codes.packed.shape[1]))
        starts = range(0, len(codes), rows)
        sent = 0
        for start in track(starts, len(codes), "loading", "codes", lambda start: min(rows, len(codes) - start)):
            part = slice(start, start + rows)
            numbers = ids[part]
            packed = codes.packed[part]
            if compare:
                new = self._differ(numbers, packed)
                numbers, packed = numbers[new], packed[new]
            if len(numbers):
                pairs = zip(numbers.tolist(), map(bytes, packed), strict=True)
                data = [{"id": number, "code": code} for number, code in pairs]
                self._server.call("upsert", data=data, tries=WRITE_TRIES)
            sent += len(numbers)
        return sent

    def _differ(self, ids: NDArray[np.int64], packed: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Of each code, whether the index holds none or another one with this id."""
        held, theirs = codes_in(self._server, ids, self.bits)
        if len(held) == 0:
            return np.ones(len(ids), np.bool_)
        at = np.minimum(np.searchsorted(held, ids), len(held) - 1)
        return (held[at] != ids) | (theirs[at] != packed).any(axis=1)


@contextmanager
def _closing_on_error(server: MilvusServer) -> Iterator[MilvusServer]:
    try:
        yield server
    except BaseException:
        server.close()
        raise


def _choose_ids(codes: Codes, ids: ArrayLike | None, first: int) -> NDArray[np.int64]:
    """The ids given, those that the codes carry, or the numbers from ``first`` on."""
    chosen = codes.ids if ids is None else check_ids(ids, len(codes))
    if chosen is None:
        if first + len(codes) - 1 > _LARGEST:
            raise CodesError("There are no free ids after the largest one present; give ids for the new codes.")
        return np.arange(first, first + len(codes), dtype=np.int64)
    if chosen.size and chosen.min() == _SMALLEST:
        # Its expressions read the number without the sign first, and that does not fit.
        raise CodesError(f"Milvus cannot look for the id {_SMALLEST}; choose another one.")
    refuse_repeated(chosen)
    return chosen


def _queries(codes: Codes) -> list[bytes]:
    return [bytes(row) for row in codes.packed]
