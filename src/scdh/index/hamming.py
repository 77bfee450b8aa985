"""Exact search by Hamming distance: ties are broken by the smaller id.

The order of an answer is a property of the codes and ids alone: it never depends on the order in which items
were added, on block sizes, threads, or on the way it was found.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.code_checks import check_hamming_codes
from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.arguments import id_row, whole_number
from scdh.index.hits import Hits, RaggedHits
from scdh.index.kernels.distances import packed_rows, word_columns
from scdh.index.search import rounds
from scdh.index.search.planner import TRIAL, Finder, check_way
from scdh.index.search.tables import FEWEST_ROWS
from scdh.index.segments import Segment, added, choose_ids, refuse_repeated, removed, segment_of
from scdh.index.selection import all_ids, selection

if TYPE_CHECKING:
    from scdh.index.store import StoredArrays, StoredIndex


class HammingIndex:
    """An exact index over codes of any length.

    >>> index = HammingIndex(Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 1]]), ids=[30, 10, 20])
    >>> hits = index.search(Codes.from_bits([[0, 0, 0]]), k=2)
    >>> hits.ids.tolist(), hits.distances.tolist()
    ([[30, 20]], [[0, 1]])
    >>> index.search(Codes.from_bits([[0, 0, 0]]), k=2, only=[10, 20]).ids.tolist()
    [[20, 10]]
    """

    def __init__(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        """Without ``ids`` the ids that the codes carry are taken, and without those 0 … n−1."""
        check_hamming_codes(codes, "The codes of an index")
        self._bits, self._metadata = codes.bits, codes.metadata
        self._segments = added((), segment_of(codes, choose_ids((), codes, ids)))
        self._start()

    def _start(self) -> None:
        self._finder = Finder()
        self._changing = Lock()  # one change at a time; searches need none
        self._source: tuple[Path, StoredIndex] | None = None  # the file whose state this is
        self._arrays: StoredArrays | None = None  # what came from a file, with its checksums

    @classmethod
    def _of(cls, bits: int, metadata: Mapping[str, str], segments: tuple[Segment, ...]) -> "HammingIndex":
        index = cls.__new__(cls)
        index._bits, index._metadata, index._segments = bits, dict(metadata), segments
        index._start()
        return index

    @property
    def bits(self) -> int:
        return self._bits

    @property
    def metadata(self) -> dict[str, str]:
        """What travels with the codes, such as the fingerprint of the model."""
        return dict(self._metadata)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids in ascending order."""
        return all_ids(self._segments)

    @property
    def codes(self) -> Codes:
        """A copy of all codes with their ids, in ascending order of id."""
        return self.codes_of(self.ids)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """The codes of these ids, in their order."""
        asked = id_row(ids)
        words = word_columns(Codes(np.zeros((len(asked), -(-self.bits // 8)), np.uint8), self.bits))
        found = np.zeros(len(asked), np.bool_)
        for segment in self._segments:
            rows = segment.rows_of(asked)
            here = rows >= 0
            words[:, here] = segment.words[:, rows[here]]
            found |= here
        if not found.all():
            raise CodesError(f"The index holds no id {asked[~found][0]}{self._id_span()}.")
        return Codes(packed_rows(words, self.bits), self.bits, asked, self._metadata)

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._segments)

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} × {self.bits} bits)"

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> NDArray[np.int64]:
        """Add codes; without ids (given, or carried by the codes) they count on from the largest one.

        Gives the ids that the codes now have.
        """
        check_hamming_codes(codes, "The codes to add", self.bits)
        with self._changing:
            chosen = choose_ids(self._segments, codes, ids)
            self._take(added(self._segments, segment_of(codes, chosen)))
        return chosen.copy()

    def remove(self, ids: ArrayLike) -> None:
        """Remove these ids; if one of them is unknown or given twice, nothing is removed."""
        gone = id_row(ids)
        refuse_repeated(gone)
        with self._changing:
            self._take(removed(self._segments, gone))

    def _take(self, segments: tuple[Segment, ...]) -> None:
        """The new state; searches that have begun go on with the one they took."""
        self._segments, self._source = segments, None
        self._finder.keep_only([segment.words for segment in segments])

    def prepare(self) -> None:
        """Build the tables for near neighbours now, rather than when enough queries have asked for such."""
        for segment in self._segments:
            self._finder.prepare(segment.words, self.bits)

    def search(
        self,
        query_codes: Codes,
        k: int = 10,
        *,
        only: ArrayLike | None = None,
        by: str = "auto",
        progress: bool = False,
    ) -> Hits:
        """The k nearest items of each query, ordered by (distance, id); k beyond n gives all n.

        ``only`` limits the answer to some items: ids (those the index does not hold are passed over), or a boolean
        mask over ``index.ids``. ``by`` is "scan" (look at every code), "tables" (multi-index hashing), or "auto":
        what this index has found to be faster; the answer is the same. ``progress`` shows a bar on a terminal.
        """
        check_hamming_codes(query_codes, "The queries", self.bits)
        check_way(by)
        k = whole_number(k, "k", least=1)
        parts = selection(self._segments, only)
        width = min(k, sum(len(part) for part in parts))
        ids = np.empty((len(query_codes), width), dtype=np.int64)
        distances = np.empty((len(query_codes), width), dtype=np.int32)
        queries = word_columns(query_codes)
        # A small first round shows which way of searching is the faster one for the others.
        first = TRIAL if by == "auto" and max((part.rows for part in parts), default=0) >= FEWEST_ROWS else rounds.ROUND
        for asked in rounds.rounds(len(query_codes) if width else 0, width, first, progress):
            found = []
            for part in parts:
                rows, near = self._finder.nearest(part.words, queries[:, asked], k, self.bits, part.alive, by)
                found.append((part.ids_of(rows), near))
            if len(found) == 1:
                ids[asked], distances[asked] = found[0]
                continue
            all_ids = np.concatenate([one for one, _ in found], axis=1)
            all_distances = np.concatenate([one for _, one in found], axis=1)
            order = np.lexsort((all_ids, all_distances))[:, :width]
            ids[asked] = np.take_along_axis(all_ids, order, axis=1)
            distances[asked] = np.take_along_axis(all_distances, order, axis=1)
        return Hits(ids, distances)

    def within(
        self,
        query_codes: Codes,
        radius: int = 2,
        *,
        only: ArrayLike | None = None,
        by: str = "auto",
        progress: bool = False,
    ) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id)."""
        check_hamming_codes(query_codes, "The queries", self.bits)
        check_way(by)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        queries = word_columns(query_codes)
        parts = selection(self._segments, only)
        counts, ids, distances = ([np.empty(0, kind)] for kind in (np.int64, np.int64, np.int32))
        # Everything may lie within the radius, so few queries show how many answers there are.
        first = max(1, min(TRIAL, 4 * rounds.ROUND_ANSWERS // max(1, sum(part.rows for part in parts))))
        for asked in rounds.rounds(len(query_codes), 1, first, progress):
            # A round whose answers would be too many is taken in pieces, by the number that others had.
            done, found = asked.start, max(1, sum(map(len, ids)))
            while done < asked.stop:
                size = max(1, rounds.ROUND_ANSWERS * max(done, 1) // (4 * found))
                piece = slice(done, min(done + size, asked.stop))
                answers = []
                for part in parts:
                    asking = queries[:, piece]
                    query, rows, near = self._finder.within(part.words, asking, radius, self.bits, part.alive, by)
                    answers.append((query, part.ids_of(rows), near))
                query, number, near = _together(answers)
                counts.append(np.bincount(query, minlength=piece.stop - piece.start))
                ids.append(number)
                distances.append(near)
                done = piece.stop
        return RaggedHits(np.concatenate(counts), np.concatenate(ids), np.concatenate(distances))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file that describes itself, whole or not at all."""
        from scdh.index.store import write_index

        write_index(Path(path), self.bits, self._metadata, self._segments, self._arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool | None = None) -> "HammingIndex":
        """Open what ``save`` wrote; the codes stay on disk and are read as they are needed.

        ``verify`` compares all checksums; by default those of files up to 64 MB, whose reading takes no time.
        """
        from scdh.index.store import StoredArrays, read_index

        arrays = StoredArrays()
        stored = read_index(Path(path), verify=verify, known=arrays)
        index = cls._of(stored.bits, stored.metadata, stored.segments)
        index._source, index._arrays = (Path(path), stored), arrays
        return index

    def refresh(self) -> bool:
        """Take the newest state of the file that the index was loaded from; says whether there was a newer one."""
        from scdh.index.store import newer, read_index

        with self._changing:
            if self._source is None:
                raise CodesError("Only an index that was loaded from a file, and not changed since, can be refreshed.")
            path, stored = self._source
            if not newer(path, stored):
                return False
            # Arrays that are known stay the same ones, and keep their tables.
            stored = read_index(path, known=self._arrays)
            if stored.bits != self.bits:
                raise CodesError(f"{path} now has codes of {stored.bits} bits, but those before had {self.bits} bits.")
            self._take(stored.segments)
            self._metadata, self._source = dict(stored.metadata), (path, stored)
            return True

    def _id_span(self) -> str:
        ids = self.ids
        return f"; its {len(ids)} ids go from {ids[0]} to {ids[-1]}" if len(ids) else "; it is empty"


def _together(answers: list[Any]) -> Any:
    """Query, id and distance of the answers of several segments, ordered by (query, distance, id)."""
    if not answers:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    if len(answers) == 1:
        return answers[0]
    query, ids, distances = (np.concatenate(column) for column in zip(*answers, strict=True))
    order = np.lexsort((ids, distances, query))
    return query[order], ids[order], distances[order]
