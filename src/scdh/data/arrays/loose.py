"""A list of paths, PIL images, arrays or embeddings as a source without labels."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from PIL import Image

from scdh.data.arrays.memory import finite_features
from scdh.data.images.decode import decode
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.label_arrays import no_labels


class ItemsSource(Source):
    """A list of items to encode.

    Args:
        items: paths, PIL images or uint8 arrays [H, W] or [H, W, 3]; or embeddings, as vectors or an array [n, d].
        start: position of the first item in a longer stream, so that messages count from its beginning.
    """

    kind: Literal["images", "features"]

    def __init__(self, items: Sequence[Any] | np.ndarray, *, start: int = 0) -> None:
        self.name, self._start, self._items = "the given items", start, items
        self.labels, self.label_names = no_labels(len(items)), []
        first = items[0] if len(items) else None
        is_vector = (isinstance(first, np.ndarray) and first.ndim == 1) or isinstance(first, (int, float, list, tuple))
        self.kind = "features" if is_vector else "images"
        if self.kind == "features":
            try:
                self._items = finite_features(np.asarray(items), self.name)
            except ValueError as error:
                raise (
                    error if isinstance(error, DataError) else DataError(f"Embeddings differ in width: {error}.")
                ) from None

    @property
    def features(self) -> np.ndarray:
        return np.asarray(self._items) if self.kind == "features" else super().features

    def image(self, row: int, at_least: int | None = None) -> Image.Image:
        item = self._items[row]
        if isinstance(item, Image.Image):
            return item.convert("RGB")
        if isinstance(item, np.ndarray):
            if item.dtype != np.uint8 or item.ndim not in (2, 3) or (item.ndim == 3 and item.shape[2] not in (1, 3)):
                raise DataError(
                    f"Item {self._start + row} is an array of {item.dtype} {list(item.shape)}; images must be uint8 "
                    "[H, W] or [H, W, 3]."
                )
            return Image.fromarray(item.squeeze(2) if item.ndim == 3 and item.shape[2] == 1 else item).convert("RGB")
        if isinstance(item, (str, os.PathLike)):
            return decode(pathlib.Path(item), self.item_name(row), at_least)
        raise DataError(f"Item {self._start + row} is a {type(item).__name__}; give paths, PIL images or arrays.")

    def item_name(self, row: int) -> str:
        item = self._items[row]
        return str(item) if isinstance(item, (str, os.PathLike)) else f"item {self._start + row}"
