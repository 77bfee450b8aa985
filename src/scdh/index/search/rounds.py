"""Many queries are asked in rounds: what lies between the queries and the answer must not need memory without end."""

from collections.abc import Iterator
from itertools import pairwise

from scdh.progress import track

# Queries, and answers, of one round.
ROUND = 1024
ROUND_ANSWERS = 1 << 24


def rounds(count: int, width: int, first: int, progress: bool) -> Iterator[slice]:
    """Slices of the queries, each of which has ``width`` answers; the first slice has at most ``first`` queries."""
    size = max(1, min(ROUND, ROUND_ANSWERS // max(width, 1)))
    starts = [0, *range(min(first, size), count, size)] if count else []
    slices = [slice(start, stop) for start, stop in pairwise([*starts, count])]
    if not progress:
        return iter(slices)
    return track(slices, count, "searching", "queries", lambda one: one.stop - one.start)
