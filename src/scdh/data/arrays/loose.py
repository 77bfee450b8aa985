"""A list of paths, PIL images, arrays or embeddings as a source without labels."""

import os
import pathlib
from collections.abc import Iterator, Sequence
from itertools import islice
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


def item_sources(items: Any, chunk_size: int, *, is_vectors: bool) -> Iterator[tuple[int, ItemsSource]]:
    """One item, a list, an array or any iterator as sources, with the position of the first item of each.

    Args:
        items: paths, PIL images or uint8 arrays (one, or any number); or embeddings, one [d] or several [n, d].
        chunk_size: items of a source; arrays are not divided.
        is_vectors: whether embeddings are expected, which decides what one item of an array is.
    """
    if isinstance(items, (str, os.PathLike, Image.Image)):
        items = [items]
    if isinstance(items, np.ndarray):
        is_image = not is_vectors and items.ndim == 3 and items.shape[2] in (1, 3)
        is_one_item = is_image or (is_vectors and items.ndim == 1)
        items = items[None] if is_one_item else items
        if len(items):
            yield 0, ItemsSource(items)
        return
    stream, start = iter(items), 0
    while chunk := list(islice(stream, chunk_size)):
        yield start, ItemsSource(chunk, start=start)
        start += len(chunk)
