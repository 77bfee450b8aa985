"""Near-duplicates: all pairs of items within a radius, and the groups that they form.

Equal codes are found by sorting, so an index with many repeated codes costs no more than one without. Pairs of distinct
codes come from ``HammingIndex.within``, which uses the tables of multi-index hashing for a small radius.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from scdh.codes import Codes
from scdh.errors import TooManyPairsError
from scdh.index.search import hash_tables
from scdh.progress import count_progress

if TYPE_CHECKING:
    from scdh.index.hamming import HammingIndex

Numbers = NDArray[np.int64]

# The most hits of one call, and the most edges that wait to be merged into components.
_HITS = 1 << 22
_EDGES = 1 << 23
_FEWEST_QUERIES, _MOST_QUERIES = 256, 1 << 15


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of items within a radius, ordered by id.

    Attributes:
        ids: int64 [m, 2], the smaller id first.
        distances: int32 [m].
    """

    ids: Numbers
    distances: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of items that are connected by pairs within a radius; iterating gives the ids of each group.

    Two items of a group may be farther apart than the radius, if items between them connect them.

    Attributes:
        ids: int64 [sum of sizes], the ids of the first group, ascending, then those of the second, and so on.
        sizes: int64 [g], at least 2 and descending; groups of one size are ordered by their smallest id.
    """

    ids: Numbers
    sizes: Numbers

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Numbers]:
        yield from np.split(self.ids, np.cumsum(self.sizes)[:-1]) if len(self.sizes) else ()


def find_pairs(index: "HammingIndex", radius: int, most: int, progress: bool) -> Pairs:
    """All pairs at most ``radius`` apart; raises ``TooManyPairsError`` for more than ``most`` pairs."""
    items = _Items.of(index.codes)
    counts = np.diff(items.starts)
    total = int((counts * (counts - 1) // 2).sum())
    _check_count(total, most, radius)
    parts = [_equal_pairs(items, counts)]
    for one, other, distances in _near(items.distinct, radius, progress):
        total += int((counts[one] * counts[other]).sum())
        _check_count(total, most, radius)
        parts.append(_expanded(items, counts, one, other, distances))
    rows, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows.sort(axis=1)
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    return Pairs(items.ids[rows[order]], distances[order])


def find_groups(index: "HammingIndex", radius: int, progress: bool) -> Groups:
    """The connected components of at least two items; memory does not grow with the number of pairs."""
    items = _Items.of(index.codes)
    count = len(items.distinct)
    edges: list[NDArray[np.int64]] = []
    waiting, component = 0, np.arange(count)
    for one, other, _ in _near(items.distinct, radius, progress):
        edges.append(np.stack([one, other]))
        waiting += len(one)
        if waiting >= _EDGES:
            component = _components(component, edges)
            edges = []
            waiting = 0
    component = _components(component, edges)
    own = np.empty(len(items.ids), np.int64)
    own[items.order] = np.repeat(component, np.diff(items.starts))
    return _grouped(items.ids, own)


@dataclass(frozen=True, eq=False)
class _Items:
    """Items sorted by code: distinct code i has the rows ``order[starts[i]:starts[i + 1]]``, ascending."""

    ids: Numbers
    distinct: Codes
    order: Numbers
    starts: Numbers

    @classmethod
    def of(cls, codes: Codes) -> "_Items":
        assert codes.ids is not None  # codes of an index carry its ids, in ascending order
        words = codes.words()
        order = np.lexsort(words.T) if words.shape[1] > 1 else np.argsort(words[:, 0], kind="stable")
        is_first = np.ones(len(codes), np.bool_)
        is_first[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
        firsts = np.flatnonzero(is_first)
        distinct = Codes(codes.packed[order[firsts]], codes.bits)
        return cls(codes.ids, distinct, order, np.append(firsts, len(codes)))


def _near(codes: Codes, radius: int, progress: bool) -> Iterator[tuple[Numbers, Numbers, NDArray[np.int32]]]:
    """Pairs of rows i < j of distinct codes at a distance of 1 … radius, some at a time."""
    from scdh.index.hamming import HammingIndex

    if radius == 0 or len(codes) < 2:
        return
    index = HammingIndex(codes)
    if hash_tables.may_win(codes.bits, len(codes), radius):
        index.prepare()
    start, size = 0, _FEWEST_QUERIES
    bar = count_progress(len(codes), "comparing", "codes") if progress else nullcontext(lambda count: None)
    with bar as advance:
        while start < len(codes):
            stop = min(start + size, len(codes))
            hits = index.within(codes[start:stop], radius)
            queries = np.repeat(np.arange(start, stop), hits.counts)
            is_new = hits.ids > queries
            yield queries[is_new], hits.ids[is_new], hits.distances[is_new]
            advance(stop - start)
            per_query = max(1, len(hits.ids) // (stop - start))
            size = min(max(_FEWEST_QUERIES, _HITS // per_query), _MOST_QUERIES, 4 * size)
            start = stop


def _equal_pairs(items: _Items, counts: Numbers) -> tuple[Numbers, NDArray[np.int32]]:
    """All pairs of rows with the same code."""
    parts = [np.empty((0, 2), np.int64)]
    for count in np.unique(counts[counts > 1]).tolist():
        starts = items.starts[:-1][counts == count]
        first, second = np.triu_indices(count, 1)
        rows = np.stack([starts[:, None] + first, starts[:, None] + second], axis=2)
        parts.append(items.order[rows.reshape(-1, 2)])
    rows = np.concatenate(parts)
    return rows, np.zeros(len(rows), np.int32)


def _expanded(
    items: _Items, counts: Numbers, one: Numbers, other: Numbers, distances: NDArray[np.int32]
) -> tuple[Numbers, NDArray[np.int32]]:
    """The pairs of rows for pairs of distinct codes."""
    sizes = counts[one] * counts[other]
    pair = np.repeat(np.arange(len(one)), sizes)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    width = counts[other][pair]
    first = items.order[items.starts[one[pair]] + place // width]
    second = items.order[items.starts[other[pair]] + place % width]
    return np.stack([first, second], axis=1), distances[pair]


def _components(component: Numbers, edges: list[NDArray[np.int64]]) -> Numbers:
    """The component of each node after adding edges between nodes."""
    if not edges:
        return component
    one, other = component[np.concatenate(edges, axis=1)]
    count = int(component.max()) + 1
    graph = coo_array((np.ones(len(one), np.bool_), (one, other)), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)[component]


def _grouped(ids: Numbers, component: Numbers) -> Groups:
    order = np.argsort(component, kind="stable")  # ids stay ascending within a component
    sizes = np.bincount(component) if len(component) else np.empty(0, np.int64)
    starts = np.cumsum(sizes) - sizes
    large = np.flatnonzero(sizes > 1)
    large = large[np.lexsort((ids[order[starts[large]]], -sizes[large]))]
    rows = [order[starts[group] : starts[group] + sizes[group]] for group in large.tolist()]
    return Groups(ids[np.concatenate([np.empty(0, np.int64), *rows])], sizes[large].astype(np.int64))


def _check_count(total: int, most: int, radius: int) -> None:
    if total > most:
        raise TooManyPairsError(
            f"More than {most:,} pairs are within {radius} bits; use groups_within, lower radius, or raise most."
        )
