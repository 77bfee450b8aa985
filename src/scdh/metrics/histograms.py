"""Two histograms per query, which define a ranking by Hamming distance up to the order of ties."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.index.kernels.distances import BLOCK_PAIRS, hamming, word_columns
from scdh.index.kernels.threads import run, thread_count
from scdh.index.search.scan import choose_kernel
from scdh.metrics.relevance import Relevance, check_labels

_BLOCK_COLUMNS = 8192
# Queries of one task: many, so that the database is read rarely, but few enough for a smooth progress bar.
_QUERIES = 512
# Waking another thread can take 0.3 ms; this many pairs are counted in less.
_PAIRS_FOR_A_THREAD = 1 << 21

Advance = Callable[[int], None]
Tables = tuple[NDArray[np.int64], NDArray[np.int64]]


def distance_histograms(
    query_codes: Codes,
    query_labels: ArrayLike,
    database_codes: Codes,
    database_labels: ArrayLike,
    *,
    leave_one_out: bool = False,
    advance: Advance | None = None,
) -> Tables:
    """How many items, and how many relevant items, are at each distance from each query.

        items[q, d]    = |{ j : d(q, j) = d }|
        relevant[q, d] = |{ j : d(q, j) = d and j shares a label with q }|        d = 0 … bits

    Both are int64 [q, bits + 1]. With ``leave_one_out`` query q does not count item q. ``advance`` is called with the
    number of pairs that were counted. No table of queries × database is ever in memory.

    >>> query, database = Codes.from_bits([[0, 0]]), Codes.from_bits([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> items, relevant = distance_histograms(query, [7], database, [7, 7, 3, -1])
    >>> items.tolist(), relevant.tolist()
    ([[1, 2, 1]], [[1, 1, 0]])
    """
    relevance = Relevance(
        check_labels(query_labels, len(query_codes), "query_labels"),
        check_labels(database_labels, len(database_codes), "database_labels"),
    )
    words, bits = word_columns(database_codes), database_codes.bits
    shape = (len(query_codes), bits + 1)
    items, relevant = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    pairs = len(query_codes) * len(database_codes)
    count = _by_kernels if choose_kernel("histograms", words, pairs) else _by_numpy
    for rows, (item_counts, relevant_counts) in count(word_columns(query_codes), words, bits, relevance):
        items[rows] += item_counts
        relevant[rows] += relevant_counts
        if advance is not None:
            advance(int(item_counts.sum()))
    if leave_one_out:
        rows_of_queries = np.arange(len(query_codes))
        own_distances = np.bitwise_count(query_codes.packed ^ database_codes.packed).sum(axis=1, dtype=np.int64)
        items[rows_of_queries, own_distances] -= 1
        relevant[rows_of_queries, own_distances] -= relevance.of_same_rows()
    return items, relevant


def _by_kernels(
    queries: NDArray[np.unsignedinteger], words: NDArray[np.unsignedinteger], bits: int, relevance: Relevance
) -> Iterator[tuple[slice, Tables]]:
    """Large work. With one label per item the database is ordered by label, so that the relevant items of a query are a
    span of rows, which is counted separately."""
    from scdh.index.kernels.counting import count_sharing, count_spans, high_digits, slice_rows
    from scdh.index.kernels.sliced import BUNCH

    total, count = words.shape[1], queries.shape[1]
    if relevance.single:
        order, spans = _label_spans(relevance)
        words = words[:, order]
    else:
        label_words = relevance.database.astype(np.uint64)
        label_planes = slice_rows(label_words, 64 * len(label_words))
    width = -(-bits // BUNCH) * BUNCH
    planes = slice_rows(words.astype(np.uint64), width)
    digits = high_digits(planes)

    def task(group: slice) -> Tables:
        query_bits = _bit_masks(queries[:, group], width)
        items, relevant = (np.zeros((len(query_bits), bits + 1), np.int64) for _ in range(2))
        first, last = np.zeros(len(query_bits), np.int64), np.full(len(query_bits), total)
        if relevance.single:
            start, stop = spans[0][group], spans[1][group]
            count_spans(planes, query_bits, start, stop, digits, relevant)
            count_spans(planes, query_bits, first, start, digits, items)
            count_spans(planes, query_bits, stop, last, digits, items)
            items += relevant
        else:
            count_spans(planes, query_bits, first, last, digits, items)
            classes = np.argwhere(_bit_masks(relevance.query[:, group], label_planes.shape[1]))
            starts = np.searchsorted(classes[:, 0], np.arange(len(query_bits) + 1))
            count_sharing(planes, query_bits, label_planes, classes[:, 1].copy(), starts, digits, relevant)
        return items, relevant

    threads = max(1, min(thread_count(), total * count // _PAIRS_FOR_A_THREAD))
    size = max(1, min(_QUERIES, -(-count // threads)))
    groups = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    yield from zip(groups, run([partial(task, group) for group in groups]), strict=True)


def _label_spans(relevance: Relevance) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The order of the database by label, and where in it the label of each query begins and ends."""
    labels = relevance.database[0]
    # Numbers of 16 bits are sorted by radix, ten times as fast; −1 means no label, hence the + 1.
    fits = labels.max(initial=0) < np.iinfo(np.uint16).max
    order = np.argsort((labels + 1).astype(np.uint16) if fits else labels, kind="stable")
    ordered, wanted = labels[order], relevance.query[0]
    return order, (np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right"))


def _bit_masks(columns: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.uint64]:
    """The first ``bits`` bits of word columns [words, n] as numbers [n, bits] with all bits 0 or all bits 1."""
    little = columns.T.astype(columns.dtype.newbyteorder("<"), order="C", copy=False)
    ones = np.unpackbits(little.view(np.uint8).reshape(columns.shape[1], -1), axis=1, bitorder="little")[:, :bits]
    masks = np.zeros((columns.shape[1], bits), np.uint64)
    np.negative(ones.astype(np.uint64), out=masks[:, : ones.shape[1]])
    return masks


def _by_numpy(
    queries: NDArray[np.unsignedinteger], words: NDArray[np.unsignedinteger], bits: int, relevance: Relevance
) -> Iterator[tuple[slice, Tables]]:
    """Small work, in blocks of pairs."""
    levels = bits + 1
    total = words.shape[1]
    count = queries.shape[1]
    # With few items of many bits, the histograms of a block must stay small as well.
    step = max(1, BLOCK_PAIRS // max(1, min(_BLOCK_COLUMNS, total), levels))
    for top in range(0, count, step):
        rows = slice(top, min(top + step, count))
        for left in range(0, total, _BLOCK_COLUMNS):
            columns = slice(left, min(left + _BLOCK_COLUMNS, total))
            distances = hamming(queries[:, rows], words[:, columns], bits)
            # One count over (query, relevant or not, distance) gives both histograms in one pass.
            cells = (np.arange(len(distances)) * (2 * levels))[:, None] + distances
            cells += relevance.block(rows, columns) * np.intp(levels)
            table = np.bincount(cells.ravel(), minlength=len(distances) * 2 * levels)
            table = table.reshape(len(distances), 2, levels)
            yield rows, (table.sum(axis=1), table[:, 1])
