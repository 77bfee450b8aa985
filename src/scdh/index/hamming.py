"""Exact search by Hamming distance, or one that is summed over bits or bytes: ties are broken by the smaller id.

The order of the hits is a property of the codes and ids alone: it never depends on the order in which items were added,
on block sizes, threads, or the method of search.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import HAMMING, Codes, ranking_of
from scdh.codes.checks import check_codes, check_ranked_codes, check_ranking
from scdh.errors import CodesError, ConfigError
from scdh.index.arguments import check_distinct, id_row, whole_number
from scdh.index.byte_tables import ByteTables
from scdh.index.hits import Hits, RaggedHits
from scdh.index.kernels.distances import packed_rows, word_columns
from scdh.index.rescoring import check_query_vectors, gather_vectors, rank_by_vectors
from scdh.index.search import queries, table_sums
from scdh.index.search.planner import Planner, check_method
from scdh.index.search_index import Abilities
from scdh.index.segments import Segment, add_segment, choose_ids, make_segment, remove_ids, vector_kind
from scdh.index.selection import all_ids, gather_words, select_rows

if TYPE_CHECKING:
    from scdh.index.duplicates import Groups, Pairs
    from scdh.index.store import StoredArrays, StoredIndex


class HammingIndex:
    """An exact index over codes of any length.

    Several threads may search at once, even while another one adds or removes items: each search sees one state.

    Args:
        codes: the initial codes, with any number of rows; the index keeps their vectors. If their method has a distance
            of its own (``codes.ranking``), every search needs ``byte_tables``, and a radius is not available.
        ids: int64 [n], all different. None takes the ids that the codes carry, or else 0 … n−1.

    Raises:
        CodesError: if ids repeat or do not fit.

    >>> index = HammingIndex(Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 1]]), ids=[30, 10, 20])
    >>> hits = index.search(Codes.from_bits([[0, 0, 0]]), k=2)
    >>> hits.ids.tolist(), hits.distances.tolist()
    ([[30, 20]], [[0, 1]])
    >>> list(hits[0])
    [(30, 0), (20, 1)]
    >>> index.search(Codes.from_bits([[0, 0, 0]]), k=2, only=[10, 20]).ids.tolist()
    [[20, 10]]
    """

    abilities = Abilities(lists_ids=True, counts=True, byte_tables=True)

    def __init__(self, codes: Codes, ids: ArrayLike | None = None) -> None:
        check_codes(codes, "The codes of an index")
        segments = add_segment((), make_segment(codes, choose_ids((), codes, ids)))
        self._set_up(codes.bits, codes.metadata, segments)

    def _set_up(self, bits: int, metadata: Mapping[str, str], segments: tuple[Segment, ...]) -> None:
        self._bits = bits
        self._metadata = dict(metadata)
        self._segments = segments
        self._planner = Planner()
        self._change_lock = Lock()  # one change at a time; searches need no lock
        self._source: tuple[Path, StoredIndex] | None = None  # the file and the state of it that this index has
        self._arrays: StoredArrays | None = None  # the arrays that came from a file, with their checksums

    @property
    def bits(self) -> int:
        """The number of bits of each code."""
        return self._bits

    @property
    def metadata(self) -> dict[str, str]:
        """Text by name that came with the codes, such as the fingerprint of the model; a copy."""
        return dict(self._metadata)

    @property
    def ranking(self) -> str:
        """The name of the distance by which the codes rank items."""
        return ranking_of(self._metadata)

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, int64 [n] in ascending order."""
        return all_ids(self._segments)

    @property
    def codes(self) -> Codes:
        """A copy of all codes with their ids, in ascending order of id."""
        return self.codes_of(self.ids)

    @property
    def vector_kind(self) -> tuple[str, int] | None:
        """Type and width of the vectors of the items, which ``rescore`` needs; None if they have none."""
        return vector_kind(self._segments)

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether the index holds each of the ``ids`` int64 [m]: booleans [m]."""
        wanted = id_row(ids)
        known = np.zeros(len(wanted), np.bool_)
        for segment in self._segments:
            known |= segment.rows_of(wanted) >= 0
        return known

    def filter_of(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """A mask over ``ids`` that is True for these ``ids`` int64 [m]: the fastest ``only`` for repeated searches."""
        return np.isin(self.ids, ids)

    def codes_of(self, ids: ArrayLike) -> Codes:
        """The codes of the items with these ``ids``, int64 [m] or one id, in their order.

        Raises:
            UnknownIdError: if an id is unknown.
        """
        wanted = id_row(ids)
        packed = packed_rows(gather_words(self._segments, wanted, self.bits), self.bits)
        vectors = gather_vectors(self._segments, wanted) if self.vector_kind is not None else None
        return Codes(packed, self.bits, wanted, self._metadata, vectors=vectors)

    def __len__(self) -> int:
        return sum(len(segment) for segment in self._segments)

    def __copy__(self) -> "HammingIndex":
        """The same state with the same arrays and tables; later changes of one do not affect the other."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _planner=self._planner.copy(), _change_lock=Lock())
        return other

    def __repr__(self) -> str:
        return f"HammingIndex({len(self)} × {self.bits} bits)"

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> NDArray[np.int64]:
        """Add codes, without rebuilding anything.

        Args:
            codes: m codes of the bits of the index.
            ids: int64 [m], all different and new. None takes the ids that the codes carry, or else the numbers after
                the largest id of the index.

        Returns:
            The ids of the new items, int64 [m].

        Raises:
            CodesError: if the bits differ, the codes are ranked by another distance, or an id exists already or is
                repeated; then nothing is added.
        """
        check_ranked_codes(codes, "The codes to add", self.bits, self.ranking)
        with self._change_lock:
            chosen = choose_ids(self._segments, codes, ids)
            self._replace_segments(add_segment(self._segments, make_segment(codes, chosen)))
        return chosen.copy()

    def remove(self, ids: ArrayLike) -> None:
        """Remove items.

        Args:
            ids: int64 [m], or one id.

        Raises:
            CodesError: if an id is unknown or given twice; then nothing is removed.
        """
        removed_ids = id_row(ids)
        check_distinct(removed_ids)
        with self._change_lock:
            self._replace_segments(remove_ids(self._segments, removed_ids))

    def _replace_segments(self, segments: tuple[Segment, ...]) -> None:
        """Set the new state; searches that have begun continue with the old one."""
        self._segments, self._source = segments, None
        self._planner.keep_only([segment.words for segment in segments])

    def prepare(self) -> None:
        """Build the hash tables now, rather than after enough queries that would gain from them."""
        check_ranking(self.ranking, "there is nothing to prepare")
        for segment in self._segments:
            segment.check_words()
            self._planner.prepare(segment.words, self.bits)

    def search(
        self,
        query_codes: Codes,
        k: int = 10,
        *,
        weights: ArrayLike | None = None,
        byte_tables: ByteTables | None = None,
        rescore: int | None = None,
        only: ArrayLike | None = None,
        by: str = "auto",
        progress: bool = False,
    ) -> Hits:
        """The k nearest items of each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            k: the number of items for each query, at least 1; beyond n it gives all n.
            weights: real numbers [q, bits] of at least 0. The distance is then their sum over the bits that differ,
                a float64: with the absolute values ``abs(u)`` of the queries' real outputs, bits that are certain count
                    more. None: every bit counts 1.
            byte_tables: real numbers [q, bytes, 256], or a function that returns those of a slice of the queries, such
                as the result of ``Hasher.distance_tables``. The distance is then the sum of the entries for the bytes
                of an item.
            rescore: take ``k`` times as many items by Hamming distance, at least 1, and rank them by the cosine of the
                vectors that ``query_codes`` and the items carry (``Codes.with_vectors``). The distance is then
                1 − cosine, a float64.
            only: the items that may be found: ids int64 [m] (those that the index does not hold are ignored), or a
                boolean mask [n] over ``index.ids``. None: all items.
            by: "scan" (compare with every code), "tables" (multi-index hashing), or "auto" (the one that has been
                faster for this index); the hits are the same. Weighted bits and byte tables are always scanned.
            progress: whether to show progress on standard error.

        Returns:
            ``Hits`` with ids and distances [q, min(k, n)].

        Raises:
            CodesError: if the bits differ, or an argument is of another kind.
            ConfigError: if ``by`` is not one of the three.
        """
        check_ranked_codes(query_codes, "The queries", self.bits, self.ranking)
        check_method(by)
        k = whole_number(k, "k", least=1)
        if rescore is not None:
            if weights is not None or byte_tables is not None:
                raise ConfigError("rescore ranks by vectors; leave out weights and byte_tables.")
            factor = whole_number(rescore, "rescore", least=1)
            check_query_vectors(query_codes, self.vector_kind)
            nearest = self.search(query_codes, k * factor, only=only, by=by, progress=progress)
            return rank_by_vectors(nearest, query_codes, self._segments, k)
        if weights is not None or byte_tables is not None:
            if by == "tables":
                raise ConfigError("Only Hamming distances are looked up; leave out by='tables'.")
            segments = select_rows(self._segments, only)
            return table_sums.search(segments, query_codes, k, weights, byte_tables, progress)
        check_ranking(self.ranking, "give byte_tables=hasher.distance_tables(outputs)")
        if only is None and len(query_codes) == 1 and not progress:
            hits = queries.nearest_of_one(self._planner, self._segments, query_codes, k, by)
            if hits is not None:
                return hits
        segments = select_rows(self._segments, only)
        return queries.nearest(self._planner, segments, word_columns(query_codes), k, self.bits, by, progress)

    def within(
        self,
        query_codes: Codes,
        radius: int = 2,
        *,
        only: ArrayLike | None = None,
        by: str = "auto",
        progress: bool = False,
    ) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id).

        Args:
            query_codes: q codes of the bits of the index.
            radius: the largest distance, in bits, at least 0.
            only, by, progress: as for ``search``.

        Returns:
            ``RaggedHits`` with the number of hits of each query, and their ids and distances.
        """
        check_ranked_codes(query_codes, "The queries", self.bits, self.ranking)
        check_ranking(self.ranking, "a radius counts bits")
        check_method(by)
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        segments = select_rows(self._segments, only)
        return queries.within(self._planner, segments, word_columns(query_codes), radius, self.bits, by, progress)

    def count_within(self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None) -> NDArray[np.int64]:
        """How many items are at most ``radius`` from each query: the ``counts`` of ``within`` alone.

        For a large radius, counting is far faster than gathering the hits.

        Args:
            query_codes, radius, only: as for ``within``.

        Returns:
            int64 [q].
        """
        check_ranked_codes(query_codes, "The queries", self.bits, self.ranking)
        check_ranking(self.ranking, "a radius counts bits")
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        return queries.count_within(select_rows(self._segments, only), word_columns(query_codes), radius)

    def pairs_within(self, radius: int = 2, *, most: int = 10_000_000, progress: bool = False) -> "Pairs":
        """All pairs of items at a distance of at most ``radius`` from each other.

        Args:
            radius: the largest distance, in bits, at least 0.
            most: the largest number of pairs, so that memory stays bounded.
            progress: whether to show progress on standard error.

        Returns:
            ``Pairs`` with ids [m, 2] and distances [m], ordered by id.

        Raises:
            TooManyPairsError: if there are more pairs than ``most``.

        >>> index = HammingIndex(Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 1]]), ids=[30, 10, 20])
        >>> index.pairs_within(1).ids.tolist()
        [[20, 30]]
        """
        from scdh.index.duplicates import find_pairs

        check_ranking(self.ranking, "a radius counts bits")
        radius = min(whole_number(radius, "radius", least=0), self.bits)
        return find_pairs(self, radius, whole_number(most, "most", least=0), progress)

    def groups_within(self, radius: int = 2, *, progress: bool = False) -> "Groups":
        """Groups of near-duplicates: the connected components of the pairs within ``radius``.

        Memory does not grow with the number of pairs, so it suits an index with many equal codes.

        Args:
            radius, progress: as for ``pairs_within``.

        Returns:
            ``Groups`` of at least two items each, the largest first; iterating gives the ids of each group.
        """
        from scdh.index.duplicates import find_groups

        check_ranking(self.ranking, "a radius counts bits")
        return find_groups(self, min(whole_number(radius, "radius", least=0), self.bits), progress)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file ``path`` that describes itself, whole or not at all; an existing file is replaced.

        Raises:
            CodesError: if it cannot be written, or an ``IndexWriter`` has it open.
        """
        from scdh.index.store import write_index

        write_index(Path(path), self.bits, self._metadata, self._segments, self._arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: bool | None = None) -> "HammingIndex":
        """Open a file that ``save`` or an ``IndexWriter`` wrote; beyond 64 MB codes stay on disk until they are needed.

        Args:
            path: an index file.
            verify: whether to check all of it now. None does so for files up to 64 MB, where it takes no time; larger
                ones are checked block by block when they are first read, so a later search may reject damage.

        Raises:
            CodesError: if there is no such file, or it is damaged, cut short or of another format.
        """
        from scdh.index.store import StoredArrays, read_index

        arrays = StoredArrays()
        stored = read_index(Path(path), verify=verify, known=arrays)
        index = cls.__new__(cls)
        index._set_up(stored.bits, stored.metadata, stored.segments)
        index._source, index._arrays = (Path(path), stored), arrays
        return index

    def warm_up(self) -> None:
        """Load the compiled loops now, which searches would otherwise load after enough work."""
        from scdh.index.search.warming import load_loops

        load_loops(self.bits, by_tables=self.ranking != HAMMING, rows=len(self))

    def close(self) -> None:
        """Do nothing; an index in memory has no connection to release."""

    def refresh(self) -> bool:
        """Take the newest state of the file that the index was loaded from; False if it has that state already.

        Raises:
            CodesError: if the index was not loaded from a file, or was changed since.
        """
        from scdh.index.store import is_newer, read_index

        with self._change_lock:
            if self._source is None:
                raise CodesError("Only an index that was loaded from a file, and not changed since, can be refreshed.")
            path, stored = self._source
            if not is_newer(path, stored):
                return False
            # Known arrays stay the same objects, and keep their tables.
            stored = read_index(path, known=self._arrays)
            if stored.bits != self.bits:
                raise CodesError(f"{path} now has codes of {stored.bits} bits, but it had {self.bits} bits before.")
            self._replace_segments(stored.segments)
            self._metadata, self._source = dict(stored.metadata), (path, stored)
            return True
