"""The interface of every data source: rows that each have a name, labels (or none), and an image or a vector.

Labels are read at once, because splits, balancing and scoring need the whole column; images are decoded one by one.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from scdh.errors import DataError
from scdh.label_arrays import is_labelled as is_labelled  # also imported from here
from scdh.label_arrays import rows_per_class

if TYPE_CHECKING:
    from PIL import Image

    from scdh.data.images.decode import Encoded
    from scdh.data.pairs import Pairs


SAMPLED_ROWS = 32  # rows whose content is part of the content fingerprint


class BadImage(DataError):
    """One image cannot be read.

    Args:
        where: str, its path, or its file and row.
        reason: str, why, without a full stop.
    """

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"The image {where} cannot be read: {reason}.")


class Source(ABC):
    """Rows 0 … n−1 of images or embeddings; :func:`scdh.data.open_source` makes one from a path or a name.

    A class of your own sets the attributes below and defines ``item_name``, and ``image`` (kind "images") or
    ``features`` (kind "features").

    Attributes:
        name: str, how messages call the source.
        kind: "images" or "features".
        labels: int64 [n] with −1 for no label, or uint8 multi-hot [n, C] with a row of zeros for no label.
        label_names: list of C str; label i is called ``label_names[i]``.
        split: str array [n] with the part of each row ("train", "val", "test", "database", "unlabelled", or another
            word that a setting explains) if the data come divided, otherwise None.
        split_origin: str, where the split was found, for messages.
        split_note: str, a message if data without a split seem to contain one.
        has_paths: bool, whether every row is a file, so that ``stable_names`` identify the rows.
        label_advice: str, how such data get labels, for messages.
        pairs: pairs of rows that training learns from in place of labels, or None.
    """

    name: str
    kind: Literal["images", "features"]
    labels: np.ndarray
    label_names: list[str]
    split: np.ndarray | None = None
    split_origin: str = "the data's own split"
    split_note: str = ""
    has_paths: bool = False
    label_advice: str = "give labels with --label-column or --labels"
    pairs: "Pairs | None" = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels (``labels`` is multi-hot)."""
        return self.labels.ndim == 2

    @property
    def num_classes(self) -> int:
        """C, the number of label names."""
        return len(self.label_names)

    @property
    def labelled(self) -> np.ndarray:
        """bool [n]: which rows have a label."""
        return is_labelled(self.labels)

    @property
    def rows_per_class(self) -> np.ndarray:
        """int64 [C]: how many rows have each label."""
        return rows_per_class(self.labels, self.num_classes)

    @property
    def features(self) -> np.ndarray:
        """float32 [n, d] of a source of embeddings."""
        raise DataError(f"{self.name} holds images, not embeddings, so it has no features.")

    def feature_view(
        self, rows: np.ndarray, earlier_uses: np.ndarray, random_key: tuple[int, int], view: int
    ) -> np.ndarray:
        """A random version of the vectors of ``rows``; the vectors themselves if a source has only one version.

        Args:
            rows: int64 [B], row numbers.
            earlier_uses: int64 [B], how often each row was used before in this epoch.
            random_key: seed and epoch. The result depends on the four arguments only.
            view: 0 for the first view of a batch, 1 for the second, and so on.

        Returns:
            float32 [B, d].
        """
        return self.features[rows]

    def image(self, row: int, at_least: int | None = None) -> "Image.Image":
        """The RGB image of a row.

        Args:
            row: its number.
            at_least: the length of the shorter side that is needed. A much larger JPEG may then be decoded at a half,
                a quarter or an eighth of its size, but never below twice ``at_least``: several times faster.

        Raises:
            BadImage: the image cannot be read.
        """
        raise DataError(f"{self.name} holds embeddings, not images.")

    def image_file(self, row: int) -> "Path | Encoded | None":
        """The encoded image of a row, or the path of its file; None if the source has pixels."""
        return None

    @abstractmethod
    def item_name(self, row: int) -> str:
        """The name of a row for people: a path, or "photos.parquet row 17"."""

    def stable_names(self) -> Iterable[str]:
        """Names for the fingerprint: those of sources with paths leave out the folder that differs between machines."""
        return (self.item_name(row) for row in range(len(self)))

    def fingerprint(self) -> str:
        """16 hex digits of names, labels and size: the same data give the same digits on another machine."""
        digest = hashlib.sha256(f"{self.kind} {self.labels.shape}".encode())
        digest.update(_stable_bytes("\0".join(self.label_names)))
        digest.update(np.ascontiguousarray(self.labels).tobytes())
        for name in self.stable_names():
            digest.update(_stable_bytes(name) + b"\0")
        return digest.hexdigest()[:16]

    def content_fingerprint(self) -> str:
        """16 hex digits that also depend on images or vectors, as far as possible without reading them all.

        It is the key of cached features, so that other data with the same names and labels do not find them.
        """
        digest = hashlib.sha256(self.fingerprint().encode())
        for sample in self.content_samples():
            digest.update(sample + b"\0")
        return digest.hexdigest()[:16]

    def content_samples(self) -> Iterable[bytes]:
        """The content of some rows; sources of files give sizes and times of all files instead."""
        for row in np.unique(np.linspace(0, len(self) - 1, min(SAMPLED_ROWS, len(self))).astype(np.int64)).tolist():
            if self.kind == "features":
                yield np.ascontiguousarray(self.features[row]).tobytes()
            else:
                try:
                    yield self.image(row).tobytes()
                except BadImage:
                    yield b"bad"


def _stable_bytes(text: str) -> bytes:
    """UTF-8, or the bytes that a file's name really has if these are not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair of UTF-16, from a file that was written with such
        return text.encode("utf-8", "surrogatepass")


def file_stamps(paths: Iterable[Path]) -> Iterator[bytes]:
    """Size and modification time of every file; a replaced file has others."""
    for path in paths:
        try:
            status = path.stat()
            yield f"{status.st_size} {status.st_mtime_ns}".encode()
        except (OSError, ValueError):  # ValueError: a NUL in a cell of a table
            yield b"none"
