"""Some queries with their nearest items, as pictures for the report. Queries are drawn by a rule, never picked."""

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from scdh.data.source import Source
from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.rankings import CodeRanking
from scdh.index import HammingIndex
from scdh.metrics.cosine import nearest_by_cosine

QUERIES, NEIGHBOURS, SIDE = 8, 8, 136
RULE = "the first query, in the order of the data, of each of {} labels drawn with seed {}"


@dataclass(frozen=True)
class Neighbour:
    """One near item: its picture (a data URI), its label, whether that is the query's, and a text of how near it is."""

    image: str
    label: str
    right: bool
    nearness: str


@dataclass(frozen=True)
class QueryResult:
    """A query and its neighbours in two rankings of the same database."""

    row: int
    image: str
    label: str
    by_codes: list[Neighbour]
    by_floats: list[Neighbour]


def draw_queries(data: DemoData) -> np.ndarray:
    """Positions among the queries, int64 [at most ``QUERIES``], by ``RULE`` with the seed of the demo."""
    labels = data.query_labels
    present = np.unique(labels)
    rng = np.random.default_rng(data.config.seed)
    chosen = rng.choice(present, size=min(QUERIES, len(present)), replace=False)
    return np.array([np.flatnonzero(labels == label)[0] for label in np.sort(chosen)])


def query_results(data: DemoData, ranking: CodeRanking) -> list[QueryResult]:
    """Neighbours of the drawn queries by codes and by floats.

    Args:
        data: the data of the demo, with float features.
        ranking: the ranking by codes.
    """
    positions, pictures = draw_queries(data), Pictures(data.source)
    index = HammingIndex(ranking.database, ids=np.arange(len(ranking.database)))  # positions, as cosines have them
    hits = index.search(ranking.queries[positions], k=NEIGHBOURS)
    nearest, cosines = nearest_by_cosine(data.query_features[positions], data.database_features, NEIGHBOURS)

    def neighbours(items: np.ndarray, label: int, texts: Iterable[str]) -> list[Neighbour]:
        return [
            Neighbour(
                pictures.uri(data.protocol.database[item]),
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
                pictures.uri(row, 2),
                data.label_names[label],
                neighbours(hits.ids[n], label, [f"{d} bit{'' if d == 1 else 's'} away" for d in hits.distances[n]]),
                neighbours(nearest[n], label, [f"cosine {cosine:.2f}" for cosine in cosines[n]]),
            )
        )
    return results


class Pictures:
    """Rows of a source as small pictures; vectors whose length is a square number (digits) are drawn as one."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def image(self, row: int) -> Image.Image:
        """The picture of a row at its own size."""
        if self.source.kind == "images":
            return self.source.image(int(row))
        values = self.source.features[row]
        side = round(len(values) ** 0.5)
        shade = (255 * (1 - values / max(float(self.source.features.max()), 1e-9))).clip(0, 255).astype(np.uint8)
        return Image.fromarray(shade[: side * side].reshape(side, side))

    def uri(self, row: int, scale: int = 1) -> str:
        """A data URI: JPEG of a photo, PNG with hard pixel edges of anything smaller than the thumbnail."""
        image, buffer = self.image(row), io.BytesIO()
        if image.width < SIDE:
            image.resize((SIDE, SIDE), Image.Resampling.NEAREST).save(buffer, "PNG", optimize=True)
            kind = "png"
        else:
            short = min(image.size)
            left, top = (image.width - short) // 2, (image.height - short) // 2
            square = (left, top, left + short, top + short)
            small = image.resize((SIDE * scale, SIDE * scale), Image.Resampling.LANCZOS, box=square)
            small.save(buffer, "JPEG", quality=78)
            kind = "jpeg"
        return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
