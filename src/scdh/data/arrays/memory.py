"""Numpy arrays as a source: embeddings [n, d], or images as uint8 [n, H, W] or [n, H, W, C]."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from PIL import Image

from scdh.data.images.decode import decode
from scdh.data.images.pixels import CHANNELS
from scdh.data.labels import encode_array
from scdh.data.source import Source
from scdh.data.split_words import part_names
from scdh.errors import DataError
from scdh.label_arrays import no_labels


class ArraySource(Source):
    """Embeddings or images in an array.

    Args:
        data: uint8 [n, H, W] or [n, H, W, C] for images, else numbers [n, d] for embeddings.
        labels: integers or text [n] (−1 or "" for no label), or 0/1 [n, C]; None if no row has a label.
        label_names: list of C str that the label numbers stand for; None takes the values themselves.
        name: how messages call the source.
        split: str array [n], the part of each row ("train", "test", …; "" for none), or None.
        item_names: n str, or None for "<name> row <number>".
    """

    kind: Literal["images", "features"]

    def __init__(
        self,
        data: np.ndarray,
        labels: np.ndarray | None = None,
        label_names: list[str] | None = None,
        *,
        name: str = "array",
        split: np.ndarray | None = None,
        item_names: Sequence[str] | None = None,
    ) -> None:
        if hasattr(data, "tocsr"):
            raise DataError(
                f"{name} is a sparse matrix; reduce it to dense vectors, for example by TruncatedSVD of scikit-learn."
            )
        data = np.asarray(data)
        self.name = name
        self.kind = "images" if data.dtype == np.uint8 and data.ndim >= 3 else "features"
        if self.kind == "images":
            if data.ndim > 4 or (data.shape[3] not in CHANNELS if data.ndim == 4 else data.shape[2] in CHANNELS):
                raise DataError(
                    f"{name}: images must be uint8 [n, H, W] or [n, H, W, C] with 1 to 4 channels, not "
                    f"{list(data.shape)}."
                )
            self._data = data
        else:
            self._data = finite_features(data, name)
        if labels is None:
            self.labels, self.label_names = no_labels(len(data)), list(label_names or [])
        else:
            self.labels, self.label_names = encode_array(labels, label_names, what=f"labels of {name}")
        for what, column in (("labels", self.labels), ("split values", split), ("item names", item_names)):
            if column is not None and len(column) != len(data):
                raise DataError(f"{name} has {len(data)} rows but {len(column)} {what}.")
        self.split = None if split is None else part_names(np.asarray(split).tolist())
        self._item_names = item_names
        self._digest: bytes | None = None  # of all images

    @property
    def features(self) -> np.ndarray:
        return self._data if self.kind == "features" else super().features

    def image(self, row: int, at_least: int | None = None) -> Image.Image:
        if self.kind != "images":
            return super().image(row)
        return decode(self._data[row], self.item_name(row))

    def item_name(self, row: int) -> str:
        return f"{self.name} row {row}" if self._item_names is None else self._item_names[row]

    def content_samples(self) -> Iterable[bytes]:
        """All images, as there are no file sizes or times that would show a change."""
        if self.kind != "images":
            yield from super().content_samples()
            return
        if self._digest is None:
            self._digest = hashlib.sha256(np.ascontiguousarray(self._data).data).digest()
        yield self._digest

    def stable_names(self) -> Iterable[str]:
        """A sample of the values, since rows have no names of their own."""
        step = max(1, len(self._data) // 1000)
        yield f"{self._data.shape} {self._data.dtype}"
        yield np.ascontiguousarray(self._data[::step]).tobytes().hex()


def finite_features(data: np.ndarray, name: str) -> np.ndarray:
    """float32 [n, d] with at least one row and no NaN or infinity; memory-mapped float32 stays on disk."""
    if data.ndim != 2 or data.dtype.kind not in "fiub":
        raise DataError(f"{name}: embeddings must be numbers [n, d], not {data.dtype} of shape {list(data.shape)}.")
    if 0 in data.shape:
        raise DataError(f"{name}: embeddings of shape {list(data.shape)} are empty.")
    with np.errstate(over="ignore"):
        features = data if data.dtype == np.float32 else data.astype(np.float32)
    step = max(1, 2**22 // data.shape[1])  # in blocks, so that a large file is never in memory as a whole
    not_finite = np.concatenate(
        [~np.isfinite(features[start : start + step]).all(axis=1) for start in range(0, len(data), step)]
    )
    if not_finite.any():
        raise DataError(
            f"{name}: {int(not_finite.sum())} of {len(data)} embeddings hold NaN or infinity, "
            f"the first is row {int(not_finite.argmax())}."
        )
    return features
