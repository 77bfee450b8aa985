"""Confused labels: wrong items among the first hits of queries, and MAP by label."""

from dataclasses import dataclass

import numpy as np

from scdh.label_arrays import is_labelled, rows_per_class

FIRST = 10  # hits of a query that are looked at
MOST_PAIRS = 12
MOST_LABELS = 30
HEAT_LABELS = 30
NO_LABEL_NAME = "(no label)"
BLOCK = 512  # queries


@dataclass(frozen=True)
class LabelPair:
    """``count`` wrong hits with label ``found`` among the first hits of queries with label ``query``."""

    query: str
    found: str
    count: int
    share: float  # of all first hits of these queries


@dataclass(frozen=True)
class LabelScores:
    """Scores of the queries that have one label."""

    name: str
    queries: int
    items: int
    map: float
    right: float  # share of relevant items among the first hits
    confused_with: str


@dataclass(frozen=True, eq=False)
class Confusions:
    """``labels`` and ``pairs`` are the worst first, and not all of them where there are many.

    Args:
        labels: labels with the lowest MAP.
        label_count: labels that some query has.
        pairs: pairs of labels with the most wrong hits.
        pair_count: all different pairs.
        first: hits of each query that were looked at.
        names: labels of the heat map; empty if there are too many for one.
        shares: float [n, n]: of the first hits of queries with label i, the share that has label j; for other labels
            than i only hits that are wrong count.
    """

    labels: list[LabelScores]
    label_count: int
    pairs: list[LabelPair]
    pair_count: int
    first: int
    names: list[str]
    shares: np.ndarray


def find_confusions(
    query_labels: np.ndarray,
    database_labels: np.ndarray,
    label_names: list[str],
    hits: np.ndarray,
    average_precisions: np.ndarray,
) -> Confusions:
    """Count what the first hits of all queries are.

    Args:
        query_labels: int64 [q] or multi-hot [q, C].
        database_labels: int64 [n] or multi-hot [n, C].
        label_names: C names.
        hits: int64 [q, k], positions in the database of the first hits of each query.
        average_precisions: float [q].
    """
    classes = len(label_names)
    names = [*label_names, NO_LABEL_NAME]
    owners, owned = _label_lists(query_labels)  # (query, label)
    query_counts = np.bincount(owned, minlength=classes)
    right = shares_a_label(query_labels, database_labels, hits)
    precision = right.mean(axis=1) if hits.shape[1] else np.zeros(len(hits))
    sums = [np.bincount(owned, values[owners], minlength=classes) for values in (average_precisions, precision)]
    with_queries = np.flatnonzero(query_counts)
    maps, rights = (total[with_queries] / query_counts[with_queries] for total in sums)
    pairs = _wrong_pairs(query_labels, database_labels, hits, ~right, classes)
    order = with_queries[np.argsort(maps, kind="stable")]
    by_label = dict(zip(with_queries.tolist(), zip(maps, rights, strict=True), strict=True))
    items = rows_per_class(database_labels, classes)
    most_wrong: dict[int, int] = {}
    for (query, found), _ in pairs:  # by falling count
        most_wrong.setdefault(query, found)
    labels = [
        LabelScores(
            names[label],
            int(query_counts[label]),
            int(items[label]),
            float(by_label[label][0]),
            float(by_label[label][1]),
            names[most_wrong[label]] if label in most_wrong else "",
        )
        for label in order[:MOST_LABELS].tolist()
    ]
    shown = [
        LabelPair(names[query], names[found], count, count / (query_counts[query] * hits.shape[1]))
        for (query, found), count in pairs[:MOST_PAIRS]
    ]
    heat = with_queries if 1 < len(with_queries) <= HEAT_LABELS else with_queries[:0]
    shares = _heat(owners, owned, database_labels, hits, ~right, heat)
    heat_names = [label_names[label] for label in heat.tolist()]
    return Confusions(labels, len(with_queries), shown, len(pairs), hits.shape[1], heat_names, shares)


def shares_a_label(query_labels: np.ndarray, database_labels: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """bool [q, k]: whether each hit has a label of its query; ``hits`` are positions in the database."""
    if query_labels.ndim == 1:
        return (database_labels[hits] == query_labels[:, None]) & is_labelled(query_labels)[:, None]
    shared = np.zeros(hits.shape, bool)
    for start in range(0, len(hits), BLOCK):  # a table [q, k, C] may be larger than memory
        block = slice(start, start + BLOCK)
        shared[block] = ((database_labels[hits[block]] != 0) & (query_labels[block, None, :] != 0)).any(axis=2)
    return shared


def _label_lists(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, label) of all labels of all rows, by row."""
    if labels.ndim == 2:
        rows, owned = np.nonzero(labels)
        return rows, owned
    rows = np.flatnonzero(is_labelled(labels))
    return rows, labels[rows]


def _wrong_pairs(
    query_labels: np.ndarray, database_labels: np.ndarray, hits: np.ndarray, wrong: np.ndarray, classes: int
) -> list[tuple[tuple[int, int], int]]:
    """((label of the query, label of the hit or C for none), count), by falling count."""
    queries, columns = np.nonzero(wrong)
    items = hits[queries, columns]
    queries, found = _with_labels(queries, items, database_labels, classes, keep_unlabelled=True)
    found, asked = _with_labels(found, queries, query_labels, classes, keep_unlabelled=False)
    keys, counts = np.unique(asked * (classes + 1) + found, return_counts=True)
    order = np.lexsort((keys, -counts))
    return [(divmod(int(keys[n]), classes + 1), int(counts[n])) for n in order]


def _with_labels(
    values: np.ndarray, rows: np.ndarray, labels: np.ndarray, classes: int, *, keep_unlabelled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Each of ``values`` [m] once for every label of its row, and that label (C: the row has none)."""
    owners, owned = _label_lists(labels)
    starts, stops = np.searchsorted(owners, rows, "left"), np.searchsorted(owners, rows, "right")
    counts = stops - starts
    repeats = np.maximum(counts, 1) if keep_unlabelled else counts
    first = np.repeat(np.cumsum(repeats) - repeats, repeats)
    positions = np.repeat(starts, repeats) + np.arange(len(first)) - first
    known = np.append(owned, classes)  # a row after the last label has none
    found = np.where(np.repeat(counts, repeats) > 0, known[np.minimum(positions, len(owned))], classes)
    return np.repeat(values, repeats), found


def _heat(
    owners: np.ndarray,
    owned: np.ndarray,
    database_labels: np.ndarray,
    hits: np.ndarray,
    wrong: np.ndarray,
    chosen: np.ndarray,
) -> np.ndarray:
    shares = np.zeros((len(chosen), len(chosen)))
    for row, label in enumerate(chosen.tolist()):
        queries = owners[owned == label]
        found, is_wrong = database_labels[hits[queries].ravel()], wrong[queries].ravel()
        for column, other in enumerate(chosen.tolist()):
            has = found == other if found.ndim == 1 else found[:, other] != 0
            counted = has if other == label else has & is_wrong
            shares[row, column] = counted.mean() if counted.size else 0.0
    return shares
