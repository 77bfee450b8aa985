"""Before speed counts, results must agree: exactly, apart from the order of ties, which only we promise."""

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.index import Hits, RaggedHits


class Disagreement(Exception):
    """Two ways that must give the same answer did not; there is no speed to report."""


def same_nearest(ours: Hits, distances: NDArray[np.int32], ids: NDArray[np.int64]) -> None:
    """Same distances, and same ids wherever these are not a matter of ties: nearer than the k-th."""
    order = np.lexsort((ids, distances))
    distances, ids = np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
    if not np.array_equal(ours.distances, distances):
        raise Disagreement("The distances of the nearest items differ.")
    sure = distances < distances[:, -1:]
    if not np.array_equal(ours.ids[sure], ids[sure]):
        raise Disagreement("The ids of items nearer than the k-th differ.")


def in_order(ours: Hits) -> None:
    """By (distance, id), and no item twice."""
    nearer, later = np.diff(ours.distances, axis=1), np.diff(ours.ids, axis=1)
    if not np.all((nearer > 0) | ((nearer == 0) & (later > 0))):
        raise Disagreement("The answer is not ordered by (distance, id).")


def true_distances(ours: Hits, queries: Codes, database: Codes) -> None:
    """Each id, which is a row of the database, really lies at the distance that is said."""
    for at, (ids, distances) in enumerate(zip(ours.ids, ours.distances, strict=True)):
        apart = np.bitwise_count(queries.packed[at] ^ database.packed[ids]).sum(axis=1, dtype=np.int32)
        if not np.array_equal(apart, distances):
            raise Disagreement(f"Query {at}: some items do not lie at the distance that is said.")


def same_within(
    ours: RaggedHits, limits: NDArray[np.integer], distances: NDArray[np.integer], ids: NDArray[np.int64]
) -> None:
    """Everything is the same: there are no ties to choose from. ``limits`` are faiss' lims, [q + 1]."""
    counts = np.diff(np.asarray(limits, np.int64))
    if not np.array_equal(ours.counts, counts):
        raise Disagreement("The numbers of items within the radius differ.")
    order = np.lexsort((ids, distances, np.repeat(np.arange(len(counts)), counts)))
    if not np.array_equal(ours.distances, distances[order]) or not np.array_equal(ours.ids, ids[order]):
        raise Disagreement("The items within the radius differ.")


def found_all(ours: RaggedHits, rows: NDArray[np.int64]) -> None:
    """Every planted row of every query is there, so that two empty answers cannot agree."""
    query = np.repeat(np.arange(len(ours)), ours.counts)
    pairs = query * (int(rows.max()) + 1) + ours.ids
    wanted = np.arange(len(rows))[:, None] * (int(rows.max()) + 1) + rows
    # An id beyond all planted rows would look like a row of the next query.
    if not np.isin(wanted, pairs[ours.ids <= rows.max()]).all():
        raise Disagreement("Some planted items were not found.")


def same_within_ours(ours: RaggedHits, other: RaggedHits) -> None:
    limits = np.concatenate([[0], np.cumsum(other.counts)])
    same_within(ours, limits, other.distances, other.ids)


def between(values: NDArray[np.float64], worst: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """The rival's average precision of each query lies between those of the worst and the best order of ties."""
    if not np.all((values >= worst - 1e-6) & (values <= best + 1e-6)):
        raise Disagreement("The rival's average precision lies outside of what any order of ties can give.")


def same_values(values: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    if not np.allclose(values, expected, rtol=0, atol=1e-6):
        raise Disagreement(f"Average precision differs by up to {np.abs(values - expected).max():.2g}.")
