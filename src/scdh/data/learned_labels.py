"""Data as training sees them: only labels of rows that train or validate exist.

A label that only queries have, or rows that are merely searched, would still add a class to the model (a centre that
nothing is ever near to), and would so let queries change its weights.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.label_arrays import rows_per_class, with_classes

if TYPE_CHECKING:
    from PIL import Image


def learned_source(source: Source, protocol: Protocol) -> Source:
    """``source`` without the labels that no training or validation row has; itself where there are none such."""
    rows = np.concatenate([protocol.train, protocol.validation])
    is_learned = rows_per_class(source.labels[rows], source.num_classes) > 0
    return source if is_learned.all() else _LearnedLabels(source, is_learned)


class _LearnedLabels(Source):
    """The same rows; those whose label is not learned have none.

    Args:
        source: the data.
        is_learned: bool [C], which of its labels stay, in the same order.
    """

    def __init__(self, source: Source, is_learned: np.ndarray) -> None:
        self._source = source
        self.name, self.kind = source.name, source.kind
        self.split = source.split
        self.split_origin = source.split_origin
        self.split_note = source.split_note
        self.label_names = [name for name, stays in zip(source.label_names, is_learned, strict=True) if stays]
        self.labels = with_classes(source.labels, is_learned)

    @property
    def features(self) -> np.ndarray:
        return self._source.features

    def feature_view(
        self, rows: np.ndarray, earlier_uses: np.ndarray, random_key: tuple[int, int], view: int
    ) -> np.ndarray:
        return self._source.feature_view(rows, earlier_uses, random_key, view)

    def image(self, row: int, at_least: int | None = None) -> "Image.Image":
        return self._source.image(row, at_least)

    def item_name(self, row: int) -> str:
        return self._source.item_name(row)

    def stable_names(self) -> Iterable[str]:
        return self._source.stable_names()

    def content_samples(self) -> Iterable[bytes]:
        return self._source.content_samples()

    def fingerprint(self) -> str:  # of the data as they are, by which kept features are found
        return self._source.fingerprint()
