"""Checks before timing: results must be equal, apart from the order of ties, which only scdh guarantees."""

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.index import Hits, RaggedHits


class Disagreement(Exception):
    """Two implementations gave different results, so no speed is reported."""


def same_nearest(hits: Hits, distances: NDArray[np.int32], ids: NDArray[np.int64]) -> None:
    """Same distances, and same ids of items nearer than the k-th, where ties cannot decide."""
    order = np.lexsort((ids, distances))
    distances, ids = np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
    if not np.array_equal(hits.distances, distances):
        raise Disagreement("The distances of the nearest items differ.")
    sure = distances < distances[:, -1:]
    if not np.array_equal(hits.ids[sure], ids[sure]):
        raise Disagreement("The ids of items nearer than the k-th differ.")


def in_order(hits: Hits) -> None:
    """By (distance, id), and no item twice."""
    nearer, later = np.diff(hits.distances, axis=1), np.diff(hits.ids, axis=1)
    if not np.all((nearer > 0) | ((nearer == 0) & (later > 0))):
        raise Disagreement("The hits are not ordered by (distance, id).")


def true_distances(hits: Hits, queries: Codes, database: Codes) -> None:
    """Each id, which is a row of the database, has the distance that the search returned."""
    for query, (ids, distances) in enumerate(zip(hits.ids, hits.distances, strict=True)):
        expected = np.bitwise_count(queries.packed[query] ^ database.packed[ids]).sum(axis=1, dtype=np.int32)
        if not np.array_equal(expected, distances):
            raise Disagreement(f"Query {query}: some items have another distance than the one returned.")


def same_within(
    hits: RaggedHits, limits: NDArray[np.integer], distances: NDArray[np.integer], ids: NDArray[np.int64]
) -> None:
    """The same items and distances; all within the radius are returned. ``limits`` are faiss' lims, [q + 1]."""
    counts = np.diff(np.asarray(limits, np.int64))
    if not np.array_equal(hits.counts, counts):
        raise Disagreement("The numbers of items within the radius differ.")
    order = np.lexsort((ids, distances, np.repeat(np.arange(len(counts)), counts)))
    if not np.array_equal(hits.distances, distances[order]) or not np.array_equal(hits.ids, ids[order]):
        raise Disagreement("The items within the radius differ.")


def has_all_rows(hits: RaggedHits, rows: NDArray[np.int64]) -> None:
    """Every planted row of every query is among the hits, so that two empty results do not count as equal."""
    query = np.repeat(np.arange(len(hits)), hits.counts)
    pairs = query * (int(rows.max()) + 1) + hits.ids
    wanted = np.arange(len(rows))[:, None] * (int(rows.max()) + 1) + rows
    # An id beyond all planted rows would look like a row of the next query.
    if not np.isin(wanted, pairs[hits.ids <= rows.max()]).all():
        raise Disagreement("Some planted items are not among the hits.")


def same_hits(hits: RaggedHits, other: RaggedHits) -> None:
    """:func:`same_within` of two results of scdh."""
    limits = np.concatenate([[0], np.cumsum(other.counts)])
    same_within(hits, limits, other.distances, other.ids)


def between(values: NDArray[np.float64], worst: NDArray[np.float64], best: NDArray[np.float64]) -> None:
    """The rival's average precision of each query is between those of the worst and the best order of ties."""
    if not np.all((values >= worst - 1e-6) & (values <= best + 1e-6)):
        raise Disagreement("The rival's average precision is outside of what any order of ties can give.")


def same_values(values: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    """Equal average precision of each query."""
    if not np.allclose(values, expected, rtol=0, atol=1e-6):
        raise Disagreement(f"Average precision differs by up to {np.abs(values - expected).max():.2g}.")
