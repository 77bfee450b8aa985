"""Exact search by comparing every code: by numpy or by kernels, and divided among threads.

Small work is done by numpy, so that a first search need not wait for a compiler. Once numpy has done as much work as
loading a kernel costs, the kernel is loaded in a thread (``loading``). A search that begins before it is loaded gives
the remaining queries to the kernel as soon as it is. Both give the same results.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.index.kernels.distances import BLOCK_PAIRS, hamming, largest_distance
from scdh.index.kernels.threads import run, thread_count
from scdh.index.search import loading

# numpy compares about 0.3 G pairs/s, and the kernels take some 0.6 s to load (6 s the very first time).
WORTH_LOADING = 1 << 28
_NUMPY_PAIRS_A_SECOND = 3e8
# After waiting this long for a kernel, numpy begins to answer.
_LONGEST_WAIT = 1.0
# After so many times this work a search waits for the kernel, however long that takes.
_PATIENT = 16
# Queries of one task: many, so that the database is read rarely, but few enough for their candidates to stay in cache.
_QUERIES = 256
CANDIDATE_BYTES = 1 << 26
# With fewer queries, the tables of the kernel for many cost more than they save. It is loaded once this part of the
# pairs is worth it: it saves a quarter of the time of kernels, and kernels nearly all of that of numpy.
_MANY_QUERIES = 24
_SAVED_BY_SLICES = 16
# With fewer queries than this per thread, threads share the rows instead: one query is limited by reading memory.
_FEW_QUERIES = 32
# Waking another thread can take 0.3 ms; this many words are compared in less.
WORDS_FOR_A_THREAD = 1 << 22
_BLOCK_ROWS = 8192
# Segments of more rows than this are not searched by numpy under a filter: it copies rows and their numbers.
_MOST_COPIED = 1 << 23

_counted_pairs: dict[tuple[str, str], int] = {}  # by kernel and type of number

Rows = NDArray[np.int64]
Distances = NDArray[np.int32]


def choose_kernel(kernel: str, array: NDArray[Any], pairs: int, rehearse: Callable[[], object] | None = None) -> bool:
    """Count this work, and choose the named kernel, compiled for arrays of this type (True), or numpy (False).

    ``rehearse`` calls the kernel on very little work. It is then loaded while numpy works; without it, the caller
    waits for it.
    """
    key = (kernel, array.dtype.char)
    counted = _counted_pairs[key] = _counted_pairs.get(key, 0) + pairs
    if not is_worth_loading(kernel, array):
        return False
    if rehearse is None:
        return True
    wait = min(pairs / _NUMPY_PAIRS_A_SECOND, _LONGEST_WAIT)
    patience = None if counted >= _PATIENT * WORTH_LOADING else wait
    return loading.load(key, rehearse, patience)


def load_now(kernel: str, array: NDArray[Any], rehearse: Callable[[], object]) -> None:
    """Load the named kernel for arrays of this type, as if enough work had been counted; wait for it."""
    key = (kernel, array.dtype.char)
    _counted_pairs[key] = max(_counted_pairs.get(key, 0), WORTH_LOADING)
    loading.load(key, rehearse, None)


def load_nearest(words: NDArray[Any]) -> None:
    """Load what finds the nearest codes among words of this type."""
    few = few_rows(words)
    load_now("nearest", words, partial(_rehearse_nearest, few))
    load_now("slices", words, partial(_rehearse_slices, few))


def load_within(words: NDArray[Any]) -> None:
    """Load what finds the codes within a radius among words of this type."""
    load_now("within", words, partial(_rehearse_within, few_rows(words)))


def is_loaded(kernel: str, array: NDArray[Any]) -> bool:
    """Whether a kernel is used and no longer waited for."""
    return is_worth_loading(kernel, array) and loading.is_loaded((kernel, array.dtype.char))


def few_rows(words: NDArray[Any]) -> NDArray[Any]:
    """Words of the same type for a rehearsal."""
    return _read_only(np.zeros((words.shape[0], 64), words.dtype))


def is_worth_loading(kernel: str, array: NDArray[Any]) -> bool:
    """Whether so much work has been counted for a kernel that it is used."""
    # Most of the time goes into loading numba itself; once it is loaded, another kernel pays off sooner.
    least = WORTH_LOADING // 16 if "numba" in sys.modules else WORTH_LOADING
    return _counted_pairs.get((kernel, array.dtype.char), 0) >= least


def nearest(
    words: NDArray[Any], queries: NDArray[Any], k: int, allowed: NDArray[np.bool_] | None, bits: int
) -> tuple[Rows, Distances]:
    """Rows and distances [q, min(k, rows allowed)] by (distance, row); ``queries`` are word columns [words, q].

    ``bits`` are those of a code; bytes of its words beyond them need not be compared.
    """
    total, count = words.shape[1], queries.shape[1]
    few, pairs = few_rows(words), total * count
    by_kernel = choose_kernel("nearest", words, pairs, partial(_rehearse_nearest, few))
    by_slices = count >= _MANY_QUERIES and choose_kernel(
        "slices", words, pairs // _SAVED_BY_SLICES, partial(_rehearse_slices, few)
    )
    if not (by_kernel or is_copied(total, allowed)):
        answered = 0

        def by_numpy(part: NDArray[Any]) -> tuple[Rows, Distances]:
            nonlocal answered
            rows, distances = _nearest_by_numpy(part, queries, k, lambda: is_loaded("nearest", words))
            answered = len(rows)
            return rows, distances

        first_rows, first_distances = on_allowed_rows(words, allowed, by_numpy)
        if answered == count:
            return first_rows, first_distances
        rows, distances = nearest(words, queries[:, answered:], k, allowed, bits)
        return np.concatenate([first_rows, rows]), np.concatenate([first_distances, distances])
    if allowed is not None and (rest := np.count_nonzero(allowed)) * 8 < total:
        # Copying few rows and comparing only these is faster than skipping the others.
        return on_allowed_rows(words, allowed, lambda part: nearest(part, queries, k, None, bits))
    width = min(k, total if allowed is None else int(rest))
    rows, distances = np.empty((count, width), np.int64), np.empty((count, width), np.int32)
    if width == 0 or count == 0:
        return rows, distances
    query_rows, mask = np.ascontiguousarray(queries.T), row_mask(allowed)
    groups, spans = divide(words, count, min(_QUERIES, CANDIDATE_BYTES // (48 * width)))
    tasks = [
        partial(_nearest_task, words, query_rows[group], span, width, mask, -(-bits // 8), by_slices)
        for group in groups
        for span in spans
    ]
    results = run(tasks)
    for group in groups:
        parts = [next(results) for _ in spans]
        rows[group], distances[group] = parts[0] if len(parts) == 1 else merge(parts, width)
    return rows, distances


def _nearest_task(
    words: NDArray[Any],
    query_rows: NDArray[Any],
    span: range,
    k: int,
    mask: NDArray[np.bool_],
    code_bytes: int,
    by_slices: bool,
) -> tuple[Rows, Distances]:
    from scdh.index.kernels import scanning

    bits, middle = largest_distance(words), span.stop
    if by_slices and len(query_rows) >= _MANY_QUERIES:
        from scdh.index.kernels import slice_scanning

        if slice_scanning.is_fastest():
            middle = slice_scanning.first_row(span, k)
    # A span may have fewer than k rows; the rest keeps a distance beyond all others.
    rows = np.zeros((len(query_rows), k), np.int64)
    distances = np.full((len(query_rows), k), bits + 1, np.int32)
    counts = scanning.nearest(words, query_rows, span.start, middle, k, bits, code_bytes, mask, rows, distances)
    if middle < span.stop:
        slice_scanning.nearest_of_more(
            words, query_rows, middle, span.stop, bits, code_bytes, mask, rows, distances, counts
        )
    return rows, distances


def _rehearse_nearest(words: NDArray[Any]) -> None:
    _nearest_task(words, words[:, :1].T.copy(), range(words.shape[1]), 1, row_mask(None), 1, by_slices=False)


def _rehearse_slices(words: NDArray[Any]) -> None:
    from scdh.index.kernels import slice_scanning

    if slice_scanning.is_fastest():
        query_rows = words[:, :1].T.copy()
        mask = row_mask(None)
        bits = largest_distance(words)
        rows = np.zeros((1, 1), np.int64)
        distances = np.zeros((1, 1), np.int32)
        counts = np.zeros(1, np.int64)
        slice_scanning.nearest_of_more(words, query_rows, 0, 0, bits, 1, mask, rows, distances, counts)


def merge(parts: list[tuple[Rows, NDArray[Any]]], k: int) -> tuple[Rows, NDArray[Any]]:
    """The k best of several parts whose rows follow each other, so that a stable sort by distance is enough."""
    rows = np.concatenate([part[0] for part in parts], axis=1)
    distances = np.concatenate([part[1] for part in parts], axis=1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(distances, order, axis=1)


def within(
    words: NDArray[Any], queries: NDArray[Any], radius: int, allowed: NDArray[np.bool_] | None
) -> tuple[Rows, Rows, Distances]:
    """Query, row and distance of all pairs at most ``radius`` apart, ordered by (query, distance, row)."""
    total, count = words.shape[1], queries.shape[1]
    pieces: Iterator[tuple[int, Rows]]
    rehearse = partial(_rehearse_within, few_rows(words))
    if not (choose_kernel("within", words, total * count, rehearse) or is_copied(total, allowed)):
        rows = None if allowed is None else np.flatnonzero(allowed)
        pieces = _within_by_numpy(words if rows is None else words[:, rows], queries, radius, rows, total)
    else:
        pieces = _within_by_kernels(words, queries, radius, row_mask(allowed))
    results = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))]
    for first, keys in pieces:
        query, distance, row = split(np.sort(keys), largest_distance(words), total)
        results.append((query + first, row, distance.astype(np.int32)))
    return tuple(np.concatenate(column) for column in zip(*results, strict=True))  # type: ignore[return-value]


def _within_by_kernels(
    words: NDArray[Any], queries: NDArray[Any], radius: int, mask: NDArray[np.bool_]
) -> Iterator[tuple[int, Rows]]:
    from scdh.index.kernels import scanning

    query_rows = np.ascontiguousarray(queries.T)
    groups, spans = divide(words, queries.shape[1], _QUERIES)
    bits = largest_distance(words)
    tasks = [
        partial(scanning.within, words, query_rows[group], span.start, span.stop, radius, bits, mask)
        for group in groups
        for span in spans
    ]
    results = run(tasks)
    for group in groups:
        yield group.start, np.concatenate([next(results) for _ in spans])


def _rehearse_within(words: NDArray[Any]) -> None:
    list(_within_by_kernels(words, words[:, :1].copy(), 0, row_mask(None)))


def divide(words: NDArray[Any], count: int, most: int) -> tuple[list[slice], list[range]]:
    """Groups of at most ``most`` queries, and spans of rows: for few queries one per thread, of whole cache lines."""
    total = words.shape[1]
    useful_threads = words.size * count // WORDS_FOR_A_THREAD
    threads = min(thread_count(), useful_threads) if useful_threads > 1 else 1
    size = max(1, min(most, -(-count // threads)))
    groups = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if count >= _FEW_QUERIES * threads or total < 64 * threads:
        return groups, [range(total)]
    part = -(-total // threads) + 63 & -64
    return groups, [range(start, min(start + part, total)) for start in range(0, total, part)]


def is_copied(total: int, allowed: NDArray[np.bool_] | None) -> bool:
    """Whether numpy, which copies the allowed rows, would take more memory than a search may."""
    return allowed is not None and total > _MOST_COPIED


def row_mask(allowed: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """The mask as kernels take it: empty for "all rows", and read-only, as a mask from a file is."""
    return _read_only(np.empty(0, np.bool_) if allowed is None else allowed)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Kernels are compiled for read-only words and masks alone, as arrays from files are."""
    view = array.view()
    view.flags.writeable = False
    return view


def on_allowed_rows(
    words: NDArray[Any],
    allowed: NDArray[np.bool_] | None,
    search: Callable[[NDArray[Any]], tuple[Rows, NDArray[Any]]],
) -> tuple[Rows, NDArray[Any]]:
    """The result of a search in the allowed rows alone, with the numbers that these rows have in ``words``."""
    if allowed is None:
        return search(words)
    allowed_rows = np.flatnonzero(allowed)
    rows, distances = search(_read_only(np.ascontiguousarray(words[:, allowed_rows])))
    return allowed_rows[rows], distances


def _nearest_by_numpy(
    words: NDArray[Any], queries: NDArray[Any], k: int, may_stop: Callable[[], bool] = lambda: False
) -> tuple[Rows, Distances]:
    """The result for the first queries: all of them, or those answered until ``may_stop`` returns True.

    It goes block by block in row order: once a query has k candidates, a later row is one only at a smaller distance.
    """
    total = words.shape[1]
    count = queries.shape[1]
    bits = largest_distance(words)
    width = min(k, total)
    rows, distances = np.empty((count, width), np.int64), np.empty((count, width), np.int32)
    if width == 0:
        return rows, distances
    # The first block must have k rows; a few times k keeps the merging of candidates cheap for large k.
    block_rows = max(_BLOCK_ROWS, 4 * width)
    step = max(1, BLOCK_PAIRS // block_rows)
    for start in range(0, count, step):
        part = queries[:, start : start + step]
        block = hamming(part, words[:, :block_rows], bits)
        keys = _keys(block, np.arange(block.size), np.arange(block_rows), bits, total).reshape(block.shape)
        if width < block.shape[1]:
            keys = np.partition(keys, width - 1, axis=1)[:, :width]
        best = np.sort(keys, axis=1)
        for first in range(block_rows, total, block_rows):
            _, limit, _ = split(best[:, -1], bits, total)
            if not limit.any():
                break
            block = hamming(part, words[:, first : first + block_rows], bits)
            pairs = np.flatnonzero(block < limit.astype(block.dtype)[:, None])
            if pairs.size:
                new = _keys(block, pairs, np.arange(first, first + block_rows), bits, total)
                # Keys begin with the query, so one sort orders all queries; each keeps its first ``width``.
                merged = np.sort(np.concatenate([best.ravel(), new]))
                sizes = width + np.bincount(pairs // block.shape[1], minlength=len(best))
                best = merged[(np.cumsum(sizes) - sizes)[:, None] + np.arange(width)]
        _, distances[start : start + step], rows[start : start + step] = split(best, bits, total)
        if may_stop():
            return rows[: start + step], distances[: start + step]
    return rows, distances


def _within_by_numpy(
    words: NDArray[Any], queries: NDArray[Any], radius: int, rows: Rows | None, total: int
) -> Iterator[tuple[int, Rows]]:
    """``rows`` are the numbers of the words' rows; None if these are all rows."""
    bits = largest_distance(words)
    step = max(1, BLOCK_PAIRS // _BLOCK_ROWS)
    for start in range(0, queries.shape[1], step):
        keys = [np.empty(0, np.int64)]
        for first in range(0, words.shape[1], _BLOCK_ROWS):
            block = hamming(queries[:, start : start + step], words[:, first : first + _BLOCK_ROWS], bits)
            numbers = np.arange(first, first + block.shape[1]) if rows is None else rows[first : first + _BLOCK_ROWS]
            keys.append(_keys(block, np.flatnonzero(block <= radius), numbers, bits, total))
        yield start, np.concatenate(keys)


def _keys(block: NDArray[Any], pairs: NDArray[np.intp], rows: Rows, bits: int, total: int) -> Rows:
    """One sortable number per pair: (query · (bits + 1) + distance) · total + row.

    Calls have at most a few hundred queries, so this fits 63 bits beyond 10^12 codes of 1000 bits.
    """
    query, column = np.divmod(pairs, block.shape[1])
    return (query * (bits + 1) + block.ravel()[pairs]) * total + rows[column]


def split(keys: Rows, bits: int, total: int) -> tuple[Rows, Rows, Rows]:
    """Query, distance and row of each key."""
    rest, row = np.divmod(keys, max(total, 1))
    query, distance = np.divmod(rest, bits + 1)
    return query, distance, row
