"""Answer queries from several segments: search each, and merge by (distance, id)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.index.hits import Hits, RaggedHits
from scdh.index.kernels.distances import BLOCK_PAIRS, hamming, largest_distance
from scdh.index.search import scan
from scdh.index.search.hash_tables import FEWEST_ROWS
from scdh.index.search.planner import TRIAL, Planner
from scdh.index.segments import Segment
from scdh.progress import track

_ALL_ROWS = scan.row_mask(None)
_kernel: Any = None

# Most queries, and most hits, of one round.
ROUND = 1024
ROUND_HITS = 1 << 24

Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]  # query, id and distance of each pair


def query_rounds(count: int, width: int, first: int, progress: bool, most: int = ROUND) -> Iterator[slice]:
    """Slices of at most ``most`` of ``count`` queries with ``width`` hits each; the first has at most ``first``."""
    size = max(1, min(ROUND, most, ROUND_HITS // max(width, 1)))
    starts = [0, *range(min(first, size), count, size)] if count else []
    slices = [slice(start, stop) for start, stop in pairwise([*starts, count])]
    if not progress:
        return iter(slices)
    return track(slices, count, "searching", "queries", lambda batch: batch.stop - batch.start)


def nearest(
    planner: Planner, segments: Sequence[Segment], queries: NDArray[Any], k: int, bits: int, by: str, progress: bool
) -> Hits:
    """The k nearest items of each query; ``queries`` are word columns [words, q]."""
    count, width = queries.shape[1], min(k, sum(len(segment) for segment in segments))
    ids, distances = np.empty((count, width), np.int64), np.empty((count, width), np.int32)
    # A small first round shows whether tables are faster for the other queries. Without tables it would only be scanned
    # by numpy, while the work of a whole round decides whether compiled loops are loaded.
    first = TRIAL if by == "auto" and any(planner.has_tables(segment.words) for segment in segments) else ROUND
    for batch in query_rounds(count if width else 0, width, first, progress):
        results = []
        for segment in segments:
            _check_words(segment, by)
            rows, segment_distances = planner.nearest(segment.words, queries[:, batch], k, bits, segment.alive, by)
            results.append((segment.ids_of(rows), segment_distances))
        if len(results) == 1:
            ids[batch], distances[batch] = results[0]
            continue
        candidate_ids, candidate_distances = (np.concatenate(arrays, axis=1) for arrays in zip(*results, strict=True))
        order = np.lexsort((candidate_ids, candidate_distances))[:, :width]
        ids[batch] = np.take_along_axis(candidate_ids, order, axis=1)
        distances[batch] = np.take_along_axis(candidate_distances, order, axis=1)
    return Hits(ids, distances)


def nearest_of_one(planner: Planner, segments: tuple[Segment, ...], query: Codes, k: int, by: str) -> Hits | None:
    """A fast path for one query; None if ``nearest`` must be used. The scan of one query takes microseconds, and so
    must everything around it: rounds, plans, threads and several segments take 60 µs of Python, this takes 6.
    """
    if len(segments) != 1 or by == "tables":
        return None
    segment = segments[0]
    words = segment.words
    row_count = words.shape[1]
    if segment.alive is not None or words.size >= scan.WORDS_FOR_A_THREAD or k > row_count:
        return None
    if not scan.is_loaded("nearest", words) or (
        by == "auto" and row_count >= FEWEST_ROWS and planner.has_tables(words)
    ):
        return None
    segment.check_words()
    packed = query.packed
    bytes_of_words = words.shape[0] * words.itemsize
    query_row = np.zeros((1, bytes_of_words), np.uint8)
    query_row[:, : packed.shape[1]] = packed
    rows, distances = np.empty((1, k), np.int64), np.empty((1, k), np.int32)
    _nearest_kernel()(
        words,
        query_row.view(words.dtype),
        0,
        row_count,
        k,
        8 * bytes_of_words,
        packed.shape[1],
        _ALL_ROWS,
        rows,
        distances,
    )
    if by == "auto" and row_count >= FEWEST_ROWS:
        planner.count_scan(words, query.bits, k, distances)
    ids: NDArray[np.int64] = rows if isinstance(segment.ids, int) and segment.ids == 0 else segment.ids_of(rows)
    return Hits(ids, distances)


def within(
    planner: Planner,
    segments: Sequence[Segment],
    queries: NDArray[Any],
    radius: int,
    bits: int,
    by: str,
    progress: bool,
) -> RaggedHits:
    """All items at most ``radius`` from each query; ``queries`` are word columns [words, q]."""
    counts, ids, distances = ([np.empty(0, kind)] for kind in (np.int64, np.int64, np.int32))
    # Every item may be within the radius, so the first round is small and shows how many hits a query has.
    first = max(1, min(TRIAL, 4 * ROUND_HITS // max(1, sum(segment.rows for segment in segments))))
    for batch in query_rounds(queries.shape[1], 1, first, progress):
        start, hits_before = batch.start, max(1, sum(map(len, ids)))
        while start < batch.stop:
            # The number of queries that have ROUND_HITS / 4 hits, if each has as many hits as the earlier ones.
            size = max(1, ROUND_HITS * max(start, 1) // (4 * hits_before))
            part = slice(start, min(start + size, batch.stop))
            results = []
            for segment in segments:
                _check_words(segment, by)
                query, rows, segment_distances = planner.within(
                    segment.words, queries[:, part], radius, bits, segment.alive, by
                )
                results.append((query, segment.ids_of(rows), segment_distances))
            query, part_ids, part_distances = _merge(results)
            counts.append(np.bincount(query, minlength=part.stop - part.start))
            ids.append(part_ids)
            distances.append(part_distances)
            start = part.stop
    return RaggedHits(np.concatenate(counts), np.concatenate(ids), np.concatenate(distances))


def count_within(segments: Sequence[Segment], queries: NDArray[Any], radius: int) -> NDArray[np.int64]:
    """How many items are at most ``radius`` from each query, block by block, so that memory stays small."""
    counts = np.zeros(queries.shape[1], np.int64)
    for segment in segments:
        _check_words(segment, "scan")
        bits, step = largest_distance(segment.words), max(1, BLOCK_PAIRS // max(1, queries.shape[1]))
        for start in range(0, segment.rows, step):
            rows = slice(start, start + step)
            words = segment.words[:, rows] if segment.alive is None else segment.words[:, rows][:, segment.alive[rows]]
            counts += np.count_nonzero(hamming(queries, words, bits) <= radius, axis=1)
    return counts


def _check_words(segment: Segment, by: str) -> None:
    """Reject damage in the codes that a search reads: only those of the rows that may be found if these are few."""
    if segment.words_guard is None:
        return
    is_part = by != "tables" and segment.alive is not None and 8 * len(segment) < segment.rows
    segment.check_words(segment.alive if is_part else None)


def _merge(results: list[Pairs]) -> Pairs:
    """The pairs of all segments, ordered by (query, distance, id)."""
    if not results:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    if len(results) == 1:
        return results[0]
    query, ids, distances = (np.concatenate(column) for column in zip(*results, strict=True))
    order = np.lexsort((ids, distances, query))
    return query[order], ids[order], distances[order]


def _nearest_kernel() -> Any:
    global _kernel
    if _kernel is None:  # loaded when it is first needed
        from scdh.index.kernels import scanning

        _kernel = scanning.nearest
    return _kernel
