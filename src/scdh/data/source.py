"""What every source of data offers, whatever it is read from: rows with a name, a label and an image or a
vector.

Labels are held as arrays from the start, because splits, balancing and scoring all need the whole column;
images are decoded one by one when a row is asked for.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from scdh.errors import DataError
from scdh.label_arrays import is_labelled, renumbered, rows_per_class

if TYPE_CHECKING:
    from PIL import Image


MARKED = 32  # rows whose content stands for all


class BadImage(DataError):
    """One image cannot be read; ``where`` is its path, or its file and row."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"The image {where} cannot be read: {reason}.")


class Source(ABC):
    """Rows 0 … n−1.

    ``labels`` is int64 [n] with −1 for "no label", or uint8 multi-hot [n, C] where a row of zeros means "no
    label". ``split`` is one word per row ("train", "val", "test") where the data itself comes divided, else
    None.
    """

    name: str
    kind: Literal["images", "features"]
    labels: np.ndarray
    label_names: list[str]
    split: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def multi_label(self) -> bool:
        return self.labels.ndim == 2

    @property
    def num_classes(self) -> int:
        return len(self.label_names)

    @property
    def labelled(self) -> np.ndarray:
        """bool [n]: which rows carry a label."""
        return is_labelled(self.labels)

    @property
    def rows_per_class(self) -> np.ndarray:
        """int64 [C]: how many rows have each label."""
        return rows_per_class(self.labels, self.num_classes)

    @property
    def features(self) -> np.ndarray:
        """float32 [n, d] of a source of embeddings."""
        raise DataError(f"{self.name} holds images, not embeddings, so it has no features.")

    def feature_view(self, rows: np.ndarray, times: np.ndarray, chance: tuple[int, int], view: int) -> np.ndarray:
        """A random version of the vectors of ``rows``, which depends only on ``chance`` (seed and epoch), the number of
        the ``view``, the row, and how often it came before; the vectors themselves where there is but one version.
        """
        return self.features[rows]

    def image(self, row: int, at_least: int | None = None) -> "Image.Image":
        """The RGB image of a row.

        ``at_least`` is the shorter side needed; a much larger JPEG may then be decoded at half, a quarter or
        an eighth of its size, which is several times faster and never below twice what is asked.
        """
        raise DataError(f"{self.name} holds embeddings, not images.")

    @abstractmethod
    def item_name(self, row: int) -> str:
        """What a person would call the row: a path, or "photos.parquet row 17"."""

    def stable_names(self) -> Iterable[str]:
        """Names for the fingerprint; sources with paths leave out the part that depends on where they lie."""
        return (self.item_name(row) for row in range(len(self)))

    def fingerprint(self) -> str:
        """16 hex digits of names, labels and size: the same data gives the same digits on another machine."""
        digest = hashlib.sha256(f"{self.kind} {self.labels.shape}".encode())
        digest.update("\0".join(self.label_names).encode())
        digest.update(np.ascontiguousarray(self.labels).tobytes())
        for name in self.stable_names():
            digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
        return digest.hexdigest()[:16]

    def content_fingerprint(self) -> str:
        """Also of the pictures or vectors themselves, as far as can be told without reading them all: what is computed
        from them and kept must not be taken for what other data of the same names and labels would give.
        """
        digest = hashlib.sha256(self.fingerprint().encode())
        for mark in self.content_marks():
            digest.update(mark + b"\0")
        return digest.hexdigest()[:16]

    def content_marks(self) -> Iterable[bytes]:
        """Some rows as they are; sources that know sizes and times of all their files give these too."""
        for row in np.unique(np.linspace(0, len(self) - 1, min(MARKED, len(self))).astype(np.int64)).tolist():
            if self.kind == "features":
                yield np.ascontiguousarray(self.features[row]).tobytes()
            else:
                try:
                    yield self.image(row).tobytes()
                except BadImage:
                    yield b"bad"

    def labels_as(self, label_names: list[str]) -> np.ndarray:
        """The labels numbered as in ``label_names`` (a trained model's, or another source's list).

        Two files sort their own classes, so the number 3 need not mean the same in both; names do.
        """
        number = {name: i for i, name in enumerate(label_names)}
        used = self.rows_per_class > 0
        unknown = [name for name, is_used in zip(self.label_names, used, strict=True) if is_used and name not in number]
        if unknown:
            raise DataError(
                f"{self.name} has {len(unknown)} labels that are not among the {len(label_names)} "
                f"expected ones, the first is {unknown[0]!r}."
            )
        new_numbers = np.array([number.get(name, -1) for name in self.label_names], dtype=np.int64)
        return renumbered(self.labels, np.where(used, new_numbers, -1), len(label_names))


def file_marks(paths: Iterable[Path]) -> Iterator[bytes]:
    """Size and time of every file: a replaced picture has another."""
    for path in paths:
        try:
            found = path.stat()
            yield f"{found.st_size} {found.st_mtime_ns}".encode()
        except OSError:
            yield b"none"
