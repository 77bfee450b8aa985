"""The k best of a query while rows are compared in ascending order; see ``scanning``."""

from typing import Any

import numpy as np

from scdh.index.kernels.compiled import compiled, inlined
from scdh.index.kernels.wide_vectors import CHUNK, lowest_bit

# Places in the state of a query: how many candidates, how many of them below the limit, and the limit.
COUNT, NEARER, LIMIT = range(3)


@compiled
def no_candidates(count: int, k: int, bits: int) -> Any:
    """Memory for the candidates of ``count`` queries, and their states."""
    states = np.zeros((count, 3), np.int64)
    for i in range(count):
        states[i, LIMIT] = bits + 1
    return (
        np.empty((count, 4 * k + CHUNK), np.int64),  # rows and distances of candidates
        np.empty((count, 4 * k + CHUNK), np.int32),
        np.zeros((count, bits + 1), np.int64),  # how many of those below the limit are at each distance
        states,
    )


@compiled
def candidates_so_far(rows: Any, distances: Any, counts: Any, bits: int) -> Any:
    """The candidates from which ``take_best`` made these rows and distances [q, k]."""
    k = rows.shape[1]
    found = no_candidates(rows.shape[0], k, bits)
    for i in range(rows.shape[0]):
        for j in range(counts[i]):
            found[0][i, j], found[1][i, j] = rows[i, j], distances[i, j]
        state = found[3][i]
        state[COUNT] = counts[i]
        if counts[i] == k:
            state[LIMIT] = distances[i, k - 1]
        for j in range(counts[i]):
            if distances[i, j] < state[LIMIT]:
                found[2][i, distances[i, j]] += 1
                state[NEARER] += 1
    return found


@compiled
def take_best(found: Any, k: int, bits: int, rows: Any, distances: Any) -> Any:
    """The k best by (distance, row) into ``rows`` and ``distances`` [q, k]; returns how many each query has."""
    states = found[3]
    for i in range(len(states)):
        if states[i, COUNT] > k:
            _keep_best(found[0][i], found[1][i], k, states[i])
        _by_distance(found[0][i], found[1][i], states[i, COUNT], bits, rows[i], distances[i])
    return states[:, COUNT]


@inlined
def offer(
    mask: Any, near: Any, column: int, k: int, allowed: Any, rows: Any, distances: Any, at_distance: Any, state: Any
) -> int:
    """Take the rows of a mask, all below the limit, as candidates of one query, and return the new limit.

    ``near`` has their distances. The limit is lowered as far as k candidates allow, but only once for all of these
    rows: to look at it after each one is a branch that no processor predicts, and took five times as long. Candidates
    that are no longer below it do no harm.
    """
    count = state[COUNT]
    nearer = state[NEARER]
    limit = state[LIMIT]
    if count + CHUNK > len(rows):
        count = _keep_best(rows, distances, k, state)
    first = count
    while mask:
        place = lowest_bit(mask)
        mask &= mask - np.uint64(1)
        if allowed.size and not allowed[column + place]:
            continue
        d = np.int64(near[place])
        rows[count] = column + place
        distances[count] = d
        at_distance[d] += 1
        count += 1
    nearer += count - first
    while nearer >= k:
        limit -= 1
        nearer -= at_distance[limit]
    state[COUNT] = count
    state[NEARER] = nearer
    state[LIMIT] = limit
    return limit  # type: ignore[no-any-return]


@compiled
def _keep_best(rows: Any, distances: Any, k: int, state: Any) -> int:
    """Move the k best candidates of a query to the front: all below the limit, and the first ones at it."""
    limit, at_limit = state[LIMIT], k - state[NEARER]
    count = 0
    for i in range(state[COUNT]):
        # Without branches, because they could not be predicted; the first ``count`` have already been read.
        row, d = rows[i], distances[i]
        is_last = np.int64(d == limit) & np.int64(at_limit > 0)
        rows[count], distances[count] = row, d
        at_limit -= is_last
        count += np.int64(d < limit) | is_last  # type: ignore[assignment]
    state[COUNT] = count
    return count


@compiled
def _by_distance(rows: Any, distances: Any, count: int, bits: int, out_rows: Any, out_distances: Any) -> None:
    """A counting sort: rows are in ascending order and stay so within a distance."""
    places = np.zeros(bits + 2, np.int64)
    for i in range(count):
        places[distances[i] + 1] += 1
    for d in range(1, bits + 1):
        places[d] += places[d - 1]
    for i in range(count):
        place = places[distances[i]]
        places[distances[i]] += 1
        out_rows[place] = rows[i]
        out_distances[place] = distances[i]
