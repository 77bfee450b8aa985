"""Several versions of the same vectors, such as a frozen trunk's features of a photo and of random crops of it.

A version is drawn for each row separately, so that one batch mixes them, and for each view separately, so that the
student's and the teacher's view of a row are independent.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from scdh.data.arrays.memory import finite_features
from scdh.data.source import Source
from scdh.errors import DataError


class ViewedFeatures(Source):
    """A source of embeddings with V versions of each vector.

    Args:
        versions: V float arrays; the first, [n, d], is what evaluation uses, the others are [m, d].
        labels: int64 [n] or uint8 multi-hot [n, C].
        label_names: list of C str.
        name: how messages call the source.
        varied: int64 [m], sorted: the rows that the other versions have; None: all. Only these may be drawn.
    """

    kind: Literal["images", "features"] = "features"

    def __init__(
        self,
        versions: Sequence[np.ndarray],
        labels: np.ndarray,
        label_names: list[str],
        *,
        name: str = "features",
        varied: np.ndarray | None = None,
    ) -> None:
        shapes = [list(version.shape) for version in versions]
        expected = [] if not shapes else shapes[0] if varied is None else [len(varied), *shapes[0][1:]]
        if not shapes or any(shape != expected for shape in shapes[1:]):
            raise DataError(f"{name}: the versions of a set of vectors must have one shape, not {shapes}.")
        if len(labels) != shapes[0][0]:
            raise DataError(f"{name} has {shapes[0][0]} rows but {len(labels)} labels.")
        self.name = name
        self.labels = labels
        self.label_names = label_names
        self._varied = varied
        self._versions = [finite_features(version, name) for version in versions]

    @property
    def features(self) -> np.ndarray:
        return self._versions[0]

    def feature_view(
        self, rows: np.ndarray, earlier_uses: np.ndarray, random_key: tuple[int, int], view: int
    ) -> np.ndarray:
        drawn = draw_versions(len(self._versions), rows, earlier_uses, random_key, view)
        vectors = np.empty((len(rows), self.features.shape[1]), np.float32)
        for number, version in enumerate(self._versions):
            has_version = drawn == number
            at = rows[has_version]
            if number and self._varied is not None:
                at = np.searchsorted(self._varied, at)
            vectors[has_version] = version[at]
        return vectors

    def item_name(self, row: int) -> str:
        return f"{self.name} row {row}"


def draw_versions(
    count: int, rows: np.ndarray, earlier_uses: np.ndarray, random_key: tuple[int, int], view: int
) -> np.ndarray:
    """For each row one of ``count`` versions, all equally likely: int64 [B].

    A random generator for each row would take longer than the batch itself, so the numbers are hashed (the mixing
    function of splitmix64), all rows at once. The arguments are those of :meth:`Source.feature_view`.
    """
    state = np.zeros(len(rows), np.uint64)
    for part in (*random_key, view, rows, earlier_uses):
        state = _mix(state ^ _to_uint64(part))
    return (state % np.uint64(count)).astype(np.int64)


def _to_uint64(numbers: int | np.ndarray) -> np.ndarray:
    return numbers.astype(np.uint64) if isinstance(numbers, np.ndarray) else np.array([numbers % 2**64], np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)  # uint64 arrays wrap around, as splitmix64 needs
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
