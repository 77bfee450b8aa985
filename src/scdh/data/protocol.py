"""Which rows are trained on, which are queries and which are searched: drawn with a seed, checked, saved and named.

Published numbers differ because splits were redrawn at each start, or training rows were also queries. Here a split is
an object with a fingerprint; only runs with the same fingerprint can be compared.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scdh.data.draw import seeded, take_per_class
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.label_arrays import rows_per_class, with_classes
from scdh.storage.checksums import CHECKSUM, is_intact, with_checksum
from scdh.storage.files import read_regular, replacing

PARTS = ("train", "query", "database", "validation")
DISJOINT = (("query", "train"), ("query", "database"), ("validation", "train"), ("validation", "query"))
FORMAT = "scdh protocol 1"
LABELS_STREAM = 1  # a random stream of its own: which rows keep their label must not depend on how the split was drawn


@dataclass(frozen=True, eq=False)
class Protocol:
    """The parts of a source; :func:`scdh.runs.protocol.protocol_of` makes one from the settings of a run.

    Args:
        name: str, shown in reports; part of the fingerprint.
        seed: int, the seed it was drawn with.
        train: int64 row numbers to train on. Every part is sorted here and then read-only.
        query: int64 row numbers of queries; in no other part.
        database: int64 row numbers that are searched.
        validation: int64 row numbers for choosing settings and epochs; may be empty. Queries are never used for that.
        source_fingerprint: :meth:`scdh.data.source.Source.fingerprint` of the data the rows belong to.
        about: str, where the parts come from, in words; not part of the fingerprint.
        run_id: str, the run that it was saved for; not part of the fingerprint.
    """

    name: str
    seed: int
    train: np.ndarray
    query: np.ndarray
    database: np.ndarray
    validation: np.ndarray
    source_fingerprint: str = ""
    about: str = ""
    run_id: str = ""

    def __post_init__(self) -> None:
        for part in PARTS:
            rows = np.asarray(getattr(self, part))
            if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
                raise DataError(f"The {part} part of a protocol must be a list of row numbers.")
            rows = np.sort(rows.astype(np.int64))
            rows.flags.writeable = False
            object.__setattr__(self, part, rows)

    @property
    def unlabelled(self) -> np.ndarray:
        """Sorted database rows that are neither train, validation nor query rows.

        A semi-supervised method may learn from them, but never sees their labels.
        """
        return np.setdiff1d(self.database, np.concatenate([self.train, self.validation, self.query]))

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each part has."""
        parts = ("train", "validation", "query", "database", "unlabelled")
        return {part: len(getattr(self, part)) for part in parts}

    @property
    def searched_counts(self) -> tuple[int, int]:
        """How many rows of the database are training rows, and how many rows it has."""
        return len(np.intersect1d(self.train, self.database)), len(self.database)

    def describe(self) -> str:
        """The counts and where the parts come from, in one line."""
        counted = " · ".join(f"{part} {count:,}" for part, count in self.counts.items())
        return f"{counted} rows" + (f" ({self.about})" if self.about else "")

    @property
    def fingerprint(self) -> str:
        """16 hex digits of the name, the seed, the source and every row number."""
        digest = hashlib.sha256(json.dumps([self.name, self.seed, self.source_fingerprint]).encode())
        for part in PARTS:
            rows = getattr(self, part)
            digest.update(f"{part} {len(rows)} ".encode() + rows.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Protocol) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def check(self, n: int) -> "Protocol":
        """Reject rows outside a source of ``n`` rows, repeated rows, and rows in two disjoint parts; returns self."""
        for part in PARTS:
            rows = getattr(self, part)
            outside = int(((rows < 0) | (rows >= n)).sum())
            if outside:
                raise DataError(f"{outside} {part} rows of protocol {self.name!r} are outside 0 to {n - 1}.")
            repeated = len(rows) - len(np.unique(rows))
            if repeated:
                raise DataError(f"{repeated} {part} rows of protocol {self.name!r} come more than once.")
        for one, other in DISJOINT:
            shared = len(np.intersect1d(getattr(self, one), getattr(self, other)))
            if shared:
                raise DataError(
                    f"Protocol {self.name!r} has {shared} rows both in {one} and in {other}; expected none."
                )
        return self

    def without_validation(self) -> "Protocol":
        """The same split with the validation rows as training rows."""
        return replace(
            self,
            name=f"{self.name}, validation trains",
            train=np.concatenate([self.train, self.validation]),
            validation=self.validation[:0],
            about="; ".join(filter(None, (self.about, "validation rows train too"))),
        )

    def keep_labels(self, labels: np.ndarray, per_class: int, *, seed: int) -> "Protocol":
        """The same split with fewer labels: training rows beyond ``per_class`` of a class become ``unlabelled``.

        Args:
            labels: int64 [n] or uint8 multi-hot [n, C] of the source.
            per_class: how many training rows of each class keep their label; a class with fewer rows keeps all.
            seed: decides which rows these are. For one seed, a smaller number keeps a subset of what a larger one
                keeps.
        """
        if per_class < 1:
            raise DataError(f"At least 1 row per class must keep its label, not {per_class}.")
        order = seeded(seed, LABELS_STREAM).permutation(self.train)
        train = take_per_class(np.asarray(labels), order, per_class, "labelled", at_most=True)
        if not len(train):
            raise DataError(f"None of the {len(self.train)} training rows of protocol {self.name!r} has a label.")
        in_no_part = len(np.setdiff1d(self.train, np.concatenate([train, self.database])))
        if in_no_part:
            raise DataError(
                f"{in_no_part} training rows of protocol {self.name!r} are not in its database, "
                "so without their label they would be in no part; name the training part in data.database too."
            )
        about = "; ".join(text for text in (self.about, f"at most {per_class} labels per class") if text)
        return replace(self, name=f"{self.name}, {per_class} labels a class", train=train, about=about)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; the file appears whole or not at all."""
        content: dict[str, Any] = {"format": FORMAT, "fingerprint": self.fingerprint}
        for field in fields(self):
            value = getattr(self, field.name)
            content[field.name] = value.tolist() if isinstance(value, np.ndarray) else value
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(with_checksum(content)), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Protocol":
        """Read what :meth:`save` wrote; a file that was changed since then is rejected."""
        try:
            content = json.loads(read_regular(path))
            if not is_intact(content):  # the fingerprint covers the split alone, not its description
                raise ValueError("it was changed or damaged after it was written")
            content.pop(CHECKSUM, None)
            stored_format, stored_fingerprint = content.pop("format"), content.pop("fingerprint")
            for part in PARTS:
                content[part] = np.array(content[part], dtype=np.int64)
            protocol = cls(**content)
        except FileNotFoundError as error:
            raise DataError(f"There is no protocol file {path}.") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise DataError(f"{path} is not a whole protocol file: {error}.") from error
        if (stored_format, stored_fingerprint) != (FORMAT, protocol.fingerprint):
            raise DataError(
                f"{path} says {stored_format!r} with fingerprint {stored_fingerprint}, but its rows give {FORMAT!r} "
                f"with {protocol.fingerprint}: the file was changed."
            )
        return protocol


if TYPE_CHECKING:
    from PIL import Image


def learned_source(source: Source, protocol: Protocol) -> Source:
    """``source`` without the labels that no training or validation row has; itself if there are none."""
    rows = np.concatenate([protocol.train, protocol.validation])
    is_learned = rows_per_class(source.labels[rows], source.num_classes) > 0
    if is_learned.all():
        return source
    names = [name for name, stays in zip(source.label_names, is_learned, strict=True) if stays]
    return OtherLabels(source, with_classes(source.labels, is_learned), names)


class OtherLabels(Source):
    """The same rows with other labels: int64 [n] or multi-hot [n, C], and C names."""

    def __init__(self, source: Source, labels: np.ndarray, label_names: list[str]) -> None:
        self._source = source
        self.name, self.kind = source.name, source.kind
        self.split = source.split
        self.split_origin = source.split_origin
        self.split_note = source.split_note
        self.pairs = source.pairs
        self.labels, self.label_names = labels, label_names

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

    def fingerprint(self) -> str:  # of the original data, as it is the key of stored features
        return self._source.fingerprint()
