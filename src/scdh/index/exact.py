"""Exact search by Hamming distance: every code is looked at, and ties are broken by the smaller id.

The order of an answer is a property of the codes and ids alone: it never depends on the order in which items
were added, on block sizes, or on the sorting routine.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes, check_codes, check_ids
from scdh.errors import CodesError
from scdh.index.distances import BLOCK_PAIRS, hamming, word_columns
from scdh.index.hits import Hits, RaggedHits
from scdh.tensor_files import read_tensors, write_tensors

_FORMAT = "scdh-index"
_BLOCK_ROWS = 8192


class HammingIndex:
    """An exact index over codes of any length.

    >>> index = HammingIndex(Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 1]]), ids=[30, 10, 20])
    >>> hits = index.search(Codes.from_bits([[0, 0, 0]]), k=2)
    >>> hits.ids.tolist(), hits.distances.tolist()
    ([[30, 20]], [[0, 1]])
    """

    def __init__(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Without ``ids`` the ids that the codes carry are taken, and without those 0 … n−1."""
        check_codes(codes, "The codes of an index")
        chosen = _choose_ids(codes, ids, first=0)
        _refuse_repeated(chosen)
        self._take(Codes(codes.packed, codes.bits, chosen, codes.metadata))

    def _take(self, codes: Codes) -> None:
        """Hold these codes, which have unique ids, and forget what was prepared for the earlier ones."""
        self._codes = codes
        self._prepared: tuple[NDArray[Any], NDArray[np.int64]] | None = None

    @property
    def codes(self) -> Codes:
        """All codes with their ids, in the order in which they were added."""
        return self._codes

    @property
    def ids(self) -> NDArray[np.int64]:
        """The id of each code, in the order in which they were added."""
        ids = self._codes.ids
        return np.arange(len(self._codes)) if ids is None else ids

    @property
    def bits(self) -> int:
        return self._codes.bits

    def __len__(self) -> int:
        return len(self._codes)

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} × {self.bits} bits)"

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Add codes; without ids (given, or carried by the codes) they count on from the largest one."""
        check_codes(codes, "The codes to add", self.bits)
        first = int(self.ids.max()) + 1 if len(self) else 0
        chosen = _choose_ids(codes, ids, first)
        _refuse_repeated(chosen)
        known = chosen[np.isin(chosen, self.ids)]
        if known.size:
            raise CodesError(f"The index already holds the id {known[0]} ({known.size} of the ids to add are known).")
        new = Codes(codes.packed, codes.bits, chosen, self._codes.metadata)
        self._take(Codes.concatenate([self._codes, new]))

    def remove(self, ids: ArrayLike) -> None:
        """Remove these ids; if one of them is unknown or given twice, nothing is removed."""
        gone = check_ids(np.atleast_1d(np.asarray(ids)), np.size(ids))
        _refuse_repeated(gone)
        unknown = gone[~np.isin(gone, self.ids)]
        if unknown.size:
            raise CodesError(f"The index holds no id {unknown[0]} ({unknown.size} of the ids to remove are unknown).")
        self._take(self._codes[~np.isin(self.ids, gone)])

    def search(self, query_codes: Codes, k: int = 10) -> Hits:
        """The k nearest items of each query, ordered by (distance, id); k beyond n gives all n.

        Rows are walked in ascending id order, block by block. Once a query has k candidates, a later row can
        only get in with a distance strictly below its k-th (equal distances lose by id), so after the first
        blocks hardly anything is left to sort.
        """
        check_codes(query_codes, "The queries", self.bits)
        width = min(_whole_number(k, "k", least=1), len(self))
        ids = np.empty((len(query_codes), width), dtype=np.int64)
        distances = np.empty((len(query_codes), width), dtype=np.int32)
        if width == 0:
            return Hits(ids, distances)
        database, sorted_ids = self._by_id()
        queries = word_columns(query_codes)
        # The first block must hold k rows; a few times k keeps the merging of answers cheap for large k.
        rows = max(_BLOCK_ROWS, 4 * width)
        step = max(1, BLOCK_PAIRS // rows)
        for start in range(0, len(query_codes), step):
            block = slice(start, start + step)
            row, distance = _nearest(queries[:, block], database, self.bits, width, rows)
            ids[block] = sorted_ids[row]
            distances[block] = distance
        return Hits(ids, distances)

    def within(self, query_codes: Codes, radius: int = 2) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id)."""
        check_codes(query_codes, "The queries", self.bits)
        radius = min(_whole_number(radius, "radius", least=0), self.bits)
        database, sorted_ids = self._by_id()
        queries = word_columns(query_codes)
        step = max(1, BLOCK_PAIRS // _BLOCK_ROWS)
        counts = [np.empty(0, dtype=np.int64)]
        ids = [np.empty(0, dtype=np.int64)]
        distances = [np.empty(0, dtype=np.int32)]
        for start in range(0, len(query_codes), step):
            asked = queries[:, start : start + step]
            keys = [np.empty(0, dtype=np.int64)]
            for first in range(0, len(self), _BLOCK_ROWS):
                block = hamming(asked, database[:, first : first + _BLOCK_ROWS], self.bits)
                keys.append(_keys(block, np.flatnonzero(block <= radius), first, self.bits, len(self)))
            query, distance, row = _split(np.sort(np.concatenate(keys)), self.bits, len(self))
            counts.append(np.bincount(query, minlength=asked.shape[1]))
            ids.append(sorted_ids[row])
            distances.append(distance.astype(np.int32))
        return RaggedHits(np.concatenate(counts), np.concatenate(ids), np.concatenate(distances))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file that says its own format."""
        tensors: dict[str, NDArray[Any]] = {"packed": self._codes.packed, "ids": self.ids}
        write_tensors(path, tensors, _FORMAT, self.bits, self._codes.metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HammingIndex":
        """Read what ``save`` wrote; anything else is refused with one sentence."""
        tensors, bits, metadata = read_tensors(path, _FORMAT, required=("packed", "ids"))
        return cls(Codes(tensors["packed"], bits, tensors["ids"], metadata))

    def _by_id(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Word columns in ascending id order, and those ids: now the smaller row has the smaller id."""
        if self._prepared is None:
            ids, codes = self.ids, self._codes
            if np.any(ids[1:] < ids[:-1]):
                order = np.argsort(ids)
                ids, codes = ids[order], codes[order]
            self._prepared = word_columns(codes), ids
        return self._prepared


def _nearest(
    queries: NDArray[Any], database: NDArray[Any], bits: int, width: int, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers and distances [q, width] of the nearest rows; ``rows`` must be at least ``width``."""
    total = database.shape[1]
    block = hamming(queries, database[:, :rows], bits)
    keys = _keys(block, np.arange(block.size), 0, bits, total).reshape(block.shape)
    if width < block.shape[1]:
        keys = np.partition(keys, width - 1, axis=1)[:, :width]
    best = np.sort(keys, axis=1)
    for first in range(rows, total, rows):
        _, limit, _ = _split(best[:, -1], bits, total)
        if not limit.any():
            break
        block = hamming(queries, database[:, first : first + rows], bits)
        near = np.flatnonzero(block < limit.astype(block.dtype)[:, None])
        if near.size:
            new = _keys(block, near, first, bits, total)
            # The query leads the key, so one flat sort orders all queries; each keeps its first ``width``.
            merged = np.sort(np.concatenate([best.ravel(), new]))
            sizes = width + np.bincount(near // block.shape[1], minlength=len(best))
            best = merged[(np.cumsum(sizes) - sizes)[:, None] + np.arange(width)]
    _, distance, row = _split(best, bits, total)
    return row, distance


def _keys(block: NDArray[Any], pairs: NDArray[np.intp], first: int, bits: int, total: int) -> NDArray[np.int64]:
    """One sortable number per pair: (query · (bits + 1) + distance) · total + row.

    Blocks have at most a few dozen queries, so this fits 63 bits beyond 10^12 codes of 1000 bits.
    """
    query, column = np.divmod(pairs, block.shape[1])
    return (query * (bits + 1) + block.ravel()[pairs]) * total + (column + first)


def _split(keys: NDArray[np.int64], bits: int, total: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Query, distance and row of each key."""
    rest, row = np.divmod(keys, max(total, 1))
    query, distance = np.divmod(rest, bits + 1)
    return query, distance, row


def _choose_ids(codes: Codes, ids: ArrayLike | None, first: int) -> NDArray[np.int64]:
    if ids is not None:
        return check_ids(ids, len(codes))
    if codes.ids is not None:
        return codes.ids
    if first + len(codes) > np.iinfo(np.int64).max:
        raise CodesError("There are no free ids after the largest one present; give ids for the new codes.")
    return np.arange(first, first + len(codes), dtype=np.int64)


def _refuse_repeated(ids: NDArray[np.int64]) -> None:
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        raise CodesError(f"Each id may be given once, but the id {repeated[0]} is given more than once.")


def _whole_number(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise CodesError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)
