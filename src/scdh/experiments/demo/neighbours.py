"""Some queries with what was found for them, as pictures for the report. Queries are drawn by a rule, never picked."""

import base64
import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from scdh.data.source import Source
from scdh.experiments.demo.comparison import Comparison, Entry
from scdh.experiments.demo.cosine import nearest_by_cosine
from scdh.index import HammingIndex

QUERIES, NEIGHBOURS, SIDE = 8, 8, 136
RULE = "the first query, in the order of the data, of each of {} labels drawn with seed {}"


@dataclass(frozen=True)
class Found:
    """One neighbour: its picture, its label, whether that is the query's, and how near it is in words."""

    image: str
    label: str
    right: bool
    nearness: str


@dataclass(frozen=True)
class Answer:
    """A query and two rankings of the same database."""

    row: int
    image: str
    label: str
    by_codes: list[Found]
    by_floats: list[Found]


def drawn_queries(found: Comparison, seed: int) -> np.ndarray:
    """Positions among the queries, by ``RULE``."""
    labels = found.query_labels
    present = np.unique(labels)
    chosen = np.random.default_rng(seed).choice(present, size=min(QUERIES, len(present)), replace=False)
    return np.array([np.flatnonzero(labels == label)[0] for label in np.sort(chosen)])


def answers(found: Comparison, entry: Entry, seed: int) -> list[Answer]:
    """What codes and floats return for the drawn queries."""
    assert entry.queries is not None  # the caller hands over codes, never floats
    assert entry.database is not None
    asked, rows, labels = drawn_queries(found, seed), found.protocol.database, found.database_labels
    hits = HammingIndex(entry.database).search(entry.queries[asked], k=NEIGHBOURS)
    floats, cosines = nearest_by_cosine(found.query_features[asked], found.database_features, NEIGHBOURS)
    pictures = Pictures(found.source)
    result = []
    for i, query in enumerate(asked):
        label = found.query_labels[query]

        def of(positions: np.ndarray, words: list[str], label: int = label) -> list[Found]:
            return [
                Found(pictures.uri(rows[at]), found.label_names[labels[at]], bool(labels[at] == label), word)
                for at, word in zip(positions, words, strict=True)
            ]

        result.append(
            Answer(
                int(found.protocol.query[query]),
                pictures.uri(found.protocol.query[query], 2),
                found.label_names[label],
                of(hits.ids[i], [f"{d} bit{'' if d == 1 else 's'} away" for d in hits.distances[i]]),
                of(floats[i], [f"cosine {c:.2f}" for c in cosines[i]]),
            )
        )
    return result


class Pictures:
    """Rows of a source as small pictures; vectors whose length is a square number (digits) are drawn as one."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def image(self, row: int) -> Image.Image:
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
