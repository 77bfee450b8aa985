"""A list of paths, encoded images, PIL images, arrays or embeddings as a source without labels."""

import os
import pathlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
from PIL import Image

from scdh.data.arrays.memory import ArraySource, finite_features
from scdh.data.images.decode import ENCODED, AnyImage, decode
from scdh.data.images.pixels import is_one_image, may_be_channels_first
from scdh.data.labels import Encoded, encode_array, encode_lists, holds_lists, plain_labels
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.label_arrays import no_labels


class ItemsSource(Source):
    """A list of items to encode.

    Args:
        items: paths, bytes of image files, PIL images, or arrays [H, W] or [H, W, C] as
            :func:`scdh.data.images.pixels.rgb_pixels` takes; or embeddings, as vectors or an array [n, d].
        start: position of the first item in a longer stream, so that messages count from its beginning.
    """

    kind: Literal["images", "features"]

    def __init__(self, items: Sequence[Any] | np.ndarray, *, start: int = 0) -> None:
        self.name = "the given items"
        self._start = start
        self._items = items
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
        if isinstance(item, (str, os.PathLike)):
            item = pathlib.Path(item)
        if not isinstance(item, AnyImage):
            raise DataError(
                f"Item {self._start + row} is a {type(item).__name__}; give paths, bytes of image files, PIL images or "
                "arrays."
            )
        return decode(item, self.item_name(row), at_least)

    def item_name(self, row: int) -> str:
        item = self._items[row]
        return str(item) if isinstance(item, (str, os.PathLike)) else f"item {self._start + row}"


def item_count(items: Any, *, is_vectors: bool) -> int | None:
    """The number of items that :func:`item_sources` would read; None if that is not known beforehand."""
    if isinstance(items, (str, os.PathLike, Image.Image, *ENCODED)) or _is_one_array(items, is_vectors):
        return 1
    return len(items) if isinstance(items, list | tuple | np.ndarray) else None


def _is_one_array(items: Any, is_vectors: bool) -> bool:
    return isinstance(items, np.ndarray) and (items.ndim == 1 if is_vectors else is_one_image(items))


def item_sources(items: Any, chunk_size: int, *, is_vectors: bool) -> Iterator[tuple[int, ItemsSource]]:
    """One item, a list, an array or any iterator as sources, with the position of the first item of each.

    Args:
        items: paths, bytes of image files, PIL images or arrays of pixels (one, or any number); or embeddings, one [d]
            or several [n, d].
        chunk_size: items of a source; arrays are not divided.
        is_vectors: whether embeddings are expected, which decides what one item of an array is.
    """
    if isinstance(items, (str, os.PathLike, Image.Image, *ENCODED)):
        items = [items]
    if hasattr(items, "tocsr"):
        raise DataError(
            "Items must be dense vectors, not a sparse matrix; reduce it as the training data were reduced."
        )
    if hasattr(items, "__array__") and not isinstance(items, Image.Image):  # a frame of pandas, a tensor
        items = np.asarray(items)
    if isinstance(items, np.ndarray):
        if not is_vectors and may_be_channels_first(items.shape):
            raise DataError(
                f"An array of the shape {list(items.shape)} may be one image with its channels first or "
                f"{len(items)} grey images; give one as [H, W, C], several as [n, H, W, 1] or as a list."
            )
        items = items[None] if _is_one_array(items, is_vectors) else items
        if len(items):
            yield 0, ItemsSource(items)
        return
    stream, start = iter(items), 0
    while chunk := list(islice(stream, chunk_size)):
        yield start, ItemsSource(chunk, start=start)
        start += len(chunk)


IN_MEMORY = "(in memory)"  # ``data.source`` of a run on such data


def given_source(data: Any, labels: Any = None) -> Source:
    """Data in memory as a source.

    Args:
        data: a source; an array of embeddings or images as for :class:`ArraySource`; or a list of images or vectors as
            for :class:`ItemsSource`.
        labels: a number or a name per item, 0/1 [n, C], or a list of labels per item; −1, None or "" means no label.
    """
    if isinstance(data, Source):
        if labels is not None:
            raise DataError("A source has its own labels; leave labels out.")
        return data
    if hasattr(data, "tocsr"):
        raise DataError(
            "Embeddings must be a dense array [n, d], not a sparse matrix; sklearn.decomposition.TruncatedSVD makes "
            "one of it, or .toarray() if it fits in memory."
        )
    if hasattr(data, "__array__") and not isinstance(data, Sequence):
        source: Source = ArraySource(np.asarray(data), name="the given array")
    elif isinstance(data, Sequence) and not isinstance(data, bytes):
        source = ItemsSource(data)
    else:
        raise DataError(f"Data are a name, a path, an array, a list of items or a source, not {type(data).__name__}.")
    if not len(source):
        raise DataError("There are no items to train on.")
    if labels is not None:
        source.labels, source.label_names = _encoded(labels)
        if len(source.labels) != len(data):
            raise DataError(f"There are {len(data)} items but {len(source.labels)} labels.")
    source.label_advice = "give labels=…"
    return source


def _encoded(labels: Any) -> Encoded:
    values = list(labels)
    return encode_lists(values) if holds_lists(values) else encode_array(plain_labels(labels))
