"""Queries are answered in rounds, so that memory beside the results stays small for any number of queries."""

from collections.abc import Iterator
from itertools import pairwise

from scdh.progress import track

# Most queries, and most hits, of one round.
ROUND = 1024
ROUND_HITS = 1 << 24


def rounds(count: int, width: int, first: int, progress: bool, most: int = ROUND) -> Iterator[slice]:
    """Slices of at most ``most`` of ``count`` queries with ``width`` hits each; the first has at most ``first``."""
    size = max(1, min(ROUND, most, ROUND_HITS // max(width, 1)))
    starts = [0, *range(min(first, size), count, size)] if count else []
    slices = [slice(start, stop) for start, stop in pairwise([*starts, count])]
    if not progress:
        return iter(slices)
    return track(slices, count, "searching", "queries", lambda batch: batch.stop - batch.start)
