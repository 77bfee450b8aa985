"""Several versions of the same vectors, such as a frozen trunk's features of a photo and of random crops of it.

For every row a version is drawn by itself, so one batch mixes them, and two views of a row (a student's and a
teacher's) are independent of each other.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from scdh.data.arrays.memory import finite_features
from scdh.data.source import Source
from scdh.errors import DataError


class ViewedFeatures(Source):
    """``versions``: V arrays [n, d], the first of them plain: what evaluation sees. ``labels`` in one of the two forms
    of :class:`Source`.
    """

    kind: Literal["images", "features"] = "features"

    def __init__(
        self, versions: Sequence[np.ndarray], labels: np.ndarray, label_names: list[str], *, name: str = "features"
    ) -> None:
        shapes = [list(version.shape) for version in versions]
        if not shapes or any(shape != shapes[0] for shape in shapes):
            raise DataError(f"{name}: the versions of a set of vectors must have one shape, not {shapes}.")
        if len(labels) != shapes[0][0]:
            raise DataError(f"{name} has {shapes[0][0]} rows but {len(labels)} labels.")
        self.name, self.labels, self.label_names = name, labels, label_names
        self._versions = [finite_features(version, name) for version in versions]

    @property
    def features(self) -> np.ndarray:
        return self._versions[0]

    def feature_view(self, rows: np.ndarray, times: np.ndarray, chance: tuple[int, int], view: int) -> np.ndarray:
        drawn = draw_versions(len(self._versions), rows, times, chance, view)
        found = np.empty((len(rows), self.features.shape[1]), np.float32)
        for number, version in enumerate(self._versions):
            here = drawn == number
            found[here] = version[rows[here]]
        return found

    def item_name(self, row: int) -> str:
        return f"{self.name} row {row}"


def draw_versions(count: int, rows: np.ndarray, times: np.ndarray, chance: tuple[int, int], view: int) -> np.ndarray:
    """For each row one of ``count`` versions, evenly. A generator for each row would take longer than the batch itself,
    so the numbers are hashed (the mixing of splitmix64), all rows at once.
    """
    state = np.zeros(len(rows), np.uint64)
    for part in (*chance, view, rows, times):
        state = _mixed(state ^ _words(part))
    return (state % np.uint64(count)).astype(np.int64)


def _words(part: int | np.ndarray) -> np.ndarray:
    return part.astype(np.uint64) if isinstance(part, np.ndarray) else np.array([part % 2**64], np.uint64)


def _mixed(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)  # arrays of uint64 wrap around, as is wanted here
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
