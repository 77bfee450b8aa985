"""Some queries with their nearest items, as pictures for the report. Queries are drawn by a rule, never picked."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.rankings import RankedCodes
from scdh.experiments.pages.pictures import ShownHit, pictures_of_source
from scdh.index import HammingIndex
from scdh.metrics.cosine import nearest_by_cosine

QUERIES, NEIGHBOURS = 8, 8
RULE = "the first query, in the order of the data, of each of {} labels drawn with seed {}"


@dataclass(frozen=True)
class QueryResult:
    """A query and its neighbours in two rankings of the same database."""

    row: int
    image: str | None
    label: str
    by_codes: list[ShownHit]
    by_floats: list[ShownHit]


def draw_queries(data: DemoData) -> np.ndarray:
    """Positions among the queries, int64 [at most ``QUERIES``], by ``RULE`` with the seed of the demo."""
    labels = data.query_labels
    present = np.unique(labels)
    rng = np.random.default_rng(data.config.seed)
    chosen = rng.choice(present, size=min(QUERIES, len(present)), replace=False)
    return np.array([np.flatnonzero(labels == label)[0] for label in np.sort(chosen)])


def query_results(data: DemoData, codes: RankedCodes) -> list[QueryResult]:
    """Neighbours of the drawn queries by codes and by floats.

    Args:
        data: the data of the demo, with float features.
        codes: of queries and database.
    """
    positions, picture = draw_queries(data), pictures_of_source(data.source, draws_vectors=True)
    index = HammingIndex(codes.database, ids=np.arange(len(codes.database)))  # positions, as cosines have them
    hits = index.search(codes.queries[positions], k=NEIGHBOURS)
    nearest, cosines = nearest_by_cosine(data.query_features[positions], data.database_features, NEIGHBOURS)

    def neighbours(items: np.ndarray, label: int, texts: Iterable[str]) -> list[ShownHit]:
        return [
            ShownHit(
                picture(int(data.protocol.database[item]), 1),
                data.source.item_name(int(data.protocol.database[item])),
                data.label_names[data.database_labels[item]],
                bool(data.database_labels[item] == label),
                text,
            )
            for item, text in zip(items, texts, strict=True)
        ]

    results = []
    for n, position in enumerate(positions):
        row, label = data.protocol.query[position], data.query_labels[position]
        results.append(
            QueryResult(
                int(row),
                picture(int(row), 2),
                data.label_names[label],
                neighbours(hits.ids[n], label, [f"{d} bit{'' if d == 1 else 's'} away" for d in hits.distances[n]]),
                neighbours(nearest[n], label, [f"cosine {cosine:.2f}" for cosine in cosines[n]]),
            )
        )
    return results
