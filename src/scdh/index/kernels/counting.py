"""The inner loops of evaluation: how many items, and how many relevant ones, are at each distance from each query.

Codes are counted in the form of ``sliced``, 512 at a time, for the reason given there.
"""

from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled
from scdh.index.kernels.scanning import distance
from scdh.index.kernels.sliced import BUNCH, GROUP, LANES, count_group

# Bytes of the planes that are counted for all queries of a call before the next ones are read: a part of the second
# cache, and large enough that sums at the end of a block are rare.
_BLOCK_BYTES = 1 << 19
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def high_digits(planes: Any) -> tuple[int, ...]:
    """A tuple with one zero per binary digit of the number of bunches; kernels are compiled for each length."""
    return (0,) * int(planes.shape[1] // BUNCH).bit_length()


@compiled
def slice_rows(words: Any, bits: int) -> Any:
    """Planes uint64 [groups, bits, 8] of uint64 words [words, n]; ``bits`` may be fewer than the words have."""
    rows = words.shape[1]
    planes = np.zeros(((rows + GROUP - 1) // GROUP, bits, LANES), np.uint64)
    square = np.empty(64, np.uint64)
    for word in range(words.shape[0]):
        for first in range(0, rows, 64):
            for i in range(64):
                square[i] = words[word, first + i] if first + i < rows else np.uint64(0)
            _transpose(square)
            for i in range(min(64, bits - 64 * word)):
                planes[first // GROUP, 64 * word + i, first % GROUP // 64] = square[i]
    return planes


@compiled
def _transpose(square: Any) -> None:
    """Transpose 64 × 64 bits: swap the off-diagonal halves, then those of each half, and so on."""
    step = 32
    mask = np.uint64(0xFFFFFFFF)
    while step:
        for i in range(64):
            if i & step == 0:
                swap = (square[i] >> np.uint64(step) ^ square[i + step]) & mask
                square[i] ^= swap << np.uint64(step)
                square[i + step] ^= swap
        step //= 2
        mask ^= mask << np.uint64(step)


@compiled
def count_spans(planes: Any, queries: Any, starts: Any, stops: Any, digits: Any, counts: Any) -> None:
    """Add to ``counts`` [q, bits + 1] the distances of query i to the rows starts[i] … stops[i] − 1.

    ``queries`` is uint64 [q, bits], zeros or all ones for each bit; ``digits`` comes from ``high_digits``.
    """
    sums, mask = np.zeros((planes.shape[1] + BUNCH, LANES), np.uint64), np.empty(LANES, np.uint64)
    step = max(1, _BLOCK_BYTES // (planes.shape[1] * LANES * 8))
    for block in range(0, planes.shape[0], step):
        for i in range(queries.shape[0]):
            first = max(block, starts[i] // GROUP)
            last = min(block + step, (stops[i] + GROUP - 1) // GROUP)
            if first >= last or starts[i] >= stops[i]:
                continue
            for group in range(first, last):
                _span_mask(starts[i] - group * GROUP, stops[i] - group * GROUP, mask)
                count_group(planes, group, queries, i, mask, digits, sums)
            _move(sums, counts[i])


@compiled
def count_sharing(
    planes: Any, queries: Any, labels: Any, classes: Any, class_starts: Any, digits: Any, counts: Any
) -> None:
    """The same over the rows that share a label with the query.

    ``labels`` are planes too, one for each class; query i has classes[class_starts[i] : class_starts[i + 1]].
    """
    sums, mask = np.zeros((planes.shape[1] + BUNCH, LANES), np.uint64), np.empty(LANES, np.uint64)
    step = max(1, _BLOCK_BYTES // (planes.shape[1] * LANES * 8))
    for block in range(0, planes.shape[0], step):
        for i in range(queries.shape[0]):
            for group in range(block, min(block + step, planes.shape[0])):
                any_related = np.uint64(0)
                for lane in range(LANES):
                    mask[lane] = np.uint64(0)
                    for j in range(class_starts[i], class_starts[i + 1]):
                        mask[lane] |= labels[group, classes[j], lane]
                    any_related |= mask[lane]
                if any_related:
                    count_group(planes, group, queries, i, mask, digits, sums)
            _move(sums, counts[i])


@compiled
def _span_mask(start: int, stop: int, mask: Any) -> None:
    """Bits start … stop − 1 of a group's 512; both may be outside of it."""
    for lane in range(LANES):
        low, high = max(0, start - 64 * lane), min(64, stop - 64 * lane)
        if low >= 64 or high <= low:
            mask[lane] = np.uint64(0)
        else:
            mask[lane] = (_ALL >> np.uint64(64 - (high - low))) << np.uint64(low)


@compiled
def _move(sums: Any, counts: Any) -> None:
    for level in range(len(counts)):
        for lane in range(LANES):
            counts[level] += np.int64(sums[level, lane])
    sums[:] = 0


@compiled
def precision_sums(
    base: Any,
    queries: Any,
    labels: Any,
    query_labels: Any,
    single: bool,
    excluded: Any,
    limit: int,
    before: Any,
    relevant_before: Any,
    sums: Any,
    hits: Any,
) -> None:
    """Σ relevant rank / rank over relevant items of rank ≤ limit, ties in row order, and how many there are.

    ``before`` and ``relevant_before`` [q, bits + 1] are the numbers of items nearer than each distance; they are
    changed here. ``excluded[i]`` is a row to leave out for query i, or −1.
    """
    for i in range(queries.shape[0]):
        for row in range(base.shape[1]):
            if row == excluded[i]:
                continue
            d = distance(base, row, queries, i)
            before[i, d] += 1
            related = False
            for word in range(labels.shape[0]):
                if single:
                    related = labels[word, row] == query_labels[i, word]
                else:
                    related = related or (labels[word, row] & query_labels[i, word]) != 0
            if related:
                relevant_before[i, d] += 1
                if before[i, d] <= limit:
                    sums[i] += relevant_before[i, d] / before[i, d]
                    hits[i] += 1
