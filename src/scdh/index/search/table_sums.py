"""Search by sums of table entries in several segments: by numpy for small work, or by kernels on threads.

Tables are those of four bits (weighted distances, ``index.weights``) or of a byte (``index.byte_tables``).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.codes.checks import check_ranking
from scdh.errors import ConfigError
from scdh.index.byte_tables import BYTE_VALUES, ByteTables, Floats, checked_tables, queries_at_once, table_distances
from scdh.index.hits import Hits
from scdh.index.kernels.distances import word_columns
from scdh.index.kernels.threads import run
from scdh.index.search import scan
from scdh.index.search.queries import ROUND, query_rounds
from scdh.index.segments import Segment
from scdh.index.weights import check_weights, weight_tables

# numpy takes as long for one pair by weights, or for one byte of a pair by tables, as for this many Hamming distances.
_PAIRS = 8
_WORK_OF_A_BYTE = 2
_WEIGHTED, _BYTE_TABLES = "weighted", "byte tables"
# Queries of one task: their tables of floats and bytes stay in the second cache.
_QUERIES = 64
_CELLS = 1 << 20  # distances that numpy has in memory at once

Ranking = tuple[NDArray[np.int64], Floats]
TablesOf = Callable[[slice], Floats]  # tables [q, bytes, 256] or [q, 2 · bytes, 16] of a slice of the queries


def search(
    segments: Sequence[Segment],
    query_codes: Codes,
    k: int,
    weights: ArrayLike | None,
    byte_tables: ByteTables | None,
    progress: bool,
) -> Hits:
    """The k nearest items of each query by its weights of bits or by its tables of bytes, ordered by (distance, id)."""
    count, bits = len(query_codes), query_codes.bits
    if byte_tables is not None:
        if weights is not None:
            raise ConfigError("Distances are given by weights or by byte_tables, not by both.")
        return nearest(segments, checked_tables(byte_tables, bits, count), count, k, queries_at_once(bits), progress)
    check_ranking(query_codes.ranking, "weights are for bits that differ, so give byte_tables")
    sizes = check_weights(weights, query_codes)
    return nearest(segments, lambda rows: weight_tables(query_codes[rows], sizes[rows]), count, k, ROUND, progress)


def nearest(segments: Sequence[Segment], tables_of: TablesOf, count: int, k: int, most: int, progress: bool) -> Hits:
    """The k nearest items of each of ``count`` queries, ordered by (distance, id).

    ``most`` is the largest number of queries whose tables are in memory at once.
    """
    width = min(k, sum(len(segment) for segment in segments))
    ids, distances = np.empty((count, width), np.int64), np.empty((count, width))
    for batch in query_rounds(count if width else 0, width, most, progress, most):
        tables, results = tables_of(batch), []
        for segment in segments:
            segment.check_words(segment.alive if 8 * len(segment) < segment.rows else None)
            rows, segment_distances = _in_segment(segment.words, tables, min(k, len(segment)), segment.alive)
            results.append((segment.ids_of(rows), segment_distances))
        all_ids, all_distances = (np.concatenate(arrays, axis=1) for arrays in zip(*results, strict=True))
        if len(results) > 1:
            order = np.lexsort((all_ids, all_distances))[:, :width]
            all_ids, all_distances = (np.take_along_axis(array, order, axis=1) for array in (all_ids, all_distances))
        ids[batch], distances[batch] = all_ids, all_distances
    return Hits(ids, distances)


def rank_again(
    hits: Hits, query_codes: Codes, weights: Floats, codes_of: Callable[[NDArray[np.int64]], Codes], k: int
) -> Hits:
    """The k nearest by weighted distance among the hits of each query, whose codes ``codes_of`` gives."""
    width = min(k, hits.ids.shape[1])
    ids, distances = np.empty((len(hits), width), np.int64), np.empty((len(hits), width))
    for query, found in enumerate(hits if width else ()):
        tables = weight_tables(query_codes[query : query + 1], weights[query : query + 1])
        again = table_distances(tables, word_columns(codes_of(found.ids)))[0]
        order = np.lexsort((found.ids, again))[:width]
        ids[query], distances[query] = found.ids[order], again[order]
    return Hits(ids, distances)


def _in_segment(words: NDArray[Any], tables: Floats, k: int, allowed: NDArray[np.bool_] | None) -> Ranking:
    total, kernel = words.shape[1], _kernel(tables)
    rehearse = partial(_rehearse, scan.few_rows(words), tables.shape[1:])
    work = _PAIRS if kernel == _WEIGHTED else _WORK_OF_A_BYTE * tables.shape[1]
    by_kernel = scan.choose_kernel(kernel, words, work * total * len(tables), rehearse)
    if not by_kernel and not scan.is_copied(total, allowed):
        return scan.on_allowed_rows(words, allowed, lambda part: _by_numpy(part, tables, k))
    if allowed is not None and 8 * np.count_nonzero(allowed) < total:
        return scan.on_allowed_rows(words, allowed, lambda part: _by_kernel(part, tables, k, None))
    return _by_kernel(words, tables, k, allowed)


def _by_numpy(words: NDArray[Any], tables: Floats, k: int) -> Ranking:
    step = max(1, _CELLS // max(1, words.shape[1]))
    parts = []
    for start in range(0, len(tables), step):
        distances = table_distances(tables[start : start + step], words)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # rows are in ascending order of id
        parts.append((order, np.take_along_axis(distances, order, axis=1)))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _by_kernel(words: NDArray[Any], tables: Floats, k: int, allowed: NDArray[np.bool_] | None) -> Ranking:
    mask = scan.row_mask(allowed)
    groups, spans = scan.divide(words, len(tables), min(_QUERIES, scan.CANDIDATE_BYTES // (48 * k)))
    results = run([partial(_task, words, tables[group], span, k, mask) for group in groups for span in spans])
    rows, distances = np.empty((len(tables), k), np.int64), np.empty((len(tables), k))
    for group in groups:
        parts = [next(results) for _ in spans]
        rows[group], distances[group] = parts[0] if len(parts) == 1 else scan.merge(parts, k)
    return rows, distances


def _task(words: NDArray[Any], tables: Floats, span: range, k: int, mask: NDArray[np.bool_]) -> Ranking:
    from scdh.index.kernels.weighing import nearest_by_bytes, nearest_by_weight

    # A span may have fewer than k rows; the rest keeps a distance beyond all others.
    rows, distances = np.zeros((len(tables), k), np.int64), np.full((len(tables), k), np.inf)
    kernel = nearest_by_bytes if tables.shape[2] == BYTE_VALUES else nearest_by_weight
    kernel(words, tables, span.start, span.stop, k, mask, rows, distances)
    order = np.argsort(distances, axis=1, kind="stable")  # the kernel gives rows in ascending order
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(distances, order, axis=1)


def load_now(words: NDArray[Any], tables: Floats) -> None:
    """Load what searches words of this type by tables like these, and wait for it."""
    scan.load_now(_kernel(tables), words, partial(_rehearse, scan.few_rows(words), tables.shape[1:]))


def _kernel(tables: Floats) -> str:
    return _BYTE_TABLES if tables.shape[2] == BYTE_VALUES else _WEIGHTED


def _rehearse(words: NDArray[Any], shape: tuple[int, ...]) -> None:
    _task(words, np.zeros((1, *shape)), range(words.shape[1]), 1, scan.row_mask(None))
