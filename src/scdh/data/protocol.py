"""Which rows are trained on, which are queries, which are searched: drawn with a seed, checked, saved and
named.

Published numbers differ because splits were drawn anew at each start, or shared rows between training and
queries. Here a split is an object with a fingerprint; runs with the same fingerprint can be compared, others
cannot.
"""

import hashlib
import json
import os
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from scdh.data.draw import seeded, take_per_class
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.files import replacing
from scdh.label_arrays import is_labelled

PARTS = ("train", "query", "database", "validation")
DISJOINT = (("query", "train"), ("query", "database"), ("validation", "train"), ("validation", "query"))
FORMAT = "scdh protocol 1"
LABELS_STREAM = 1  # of the seed: which rows keep their label must not hang on how the split itself was drawn


@dataclass(frozen=True, eq=False)
class Protocol:
    """Sorted row numbers of a source. ``validation`` may be empty; it is for choosing, the query part never
    is.
    """

    name: str
    seed: int
    train: np.ndarray
    query: np.ndarray
    database: np.ndarray
    validation: np.ndarray
    source_fingerprint: str = ""

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
        """Sorted rows of the database that are neither trained on nor held out: what a semi-supervised method may see,
        but never with labels. Not stored, as it follows from the other parts.
        """
        return np.setdiff1d(self.database, np.concatenate([self.train, self.validation, self.query]))

    @property
    def fingerprint(self) -> str:
        """16 hex digits over the name, the seed, the source and every row number."""
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
        """Refuse rows that do not exist, come twice, or stand in two parts that must not meet."""
        for part in PARTS:
            rows = getattr(self, part)
            outside = int(((rows < 0) | (rows >= n)).sum())
            if outside:
                raise DataError(f"{outside} {part} rows of protocol {self.name!r} are outside 0 to {n - 1}.")
            twice = len(rows) - len(np.unique(rows))
            if twice:
                raise DataError(f"{twice} {part} rows of protocol {self.name!r} come more than once.")
        for one, other in DISJOINT:
            shared = len(np.intersect1d(getattr(self, one), getattr(self, other)))
            if shared:
                raise DataError(
                    f"Protocol {self.name!r} has {shared} rows both in {one} and in {other}; expected none."
                )
        return self

    def keep_labels(self, labels: np.ndarray, per_class: int, *, seed: int) -> "Protocol":
        """The same split where at most ``per_class`` training rows of a class keep their label; the others become
        ``unlabelled``. A smaller number keeps a part of what a larger one keeps with the same seed.
        """
        if per_class < 1:
            raise DataError(f"At least 1 row a class must keep its label, not {per_class}.")
        order = seeded(seed, LABELS_STREAM).permutation(self.train)
        train = take_per_class(np.asarray(labels), order, per_class, "labelled", at_most=True)
        if not len(train):
            raise DataError(f"None of the {len(self.train)} training rows of protocol {self.name!r} has a label.")
        lost = len(np.setdiff1d(self.train, np.concatenate([train, self.database])))
        if lost:
            raise DataError(
                f"{lost} training rows of protocol {self.name!r} are not in its database, "
                "so without their label they would be in no part; draw it with train_in_database=True."
            )
        return replace(self, name=f"{self.name}, {per_class} labels a class", train=train)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the file appears whole or not at all."""
        content: dict[str, Any] = {"format": FORMAT, "fingerprint": self.fingerprint}
        for field in fields(self):
            value = getattr(self, field.name)
            content[field.name] = value.tolist() if isinstance(value, np.ndarray) else value
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Protocol":
        """Read what :meth:`save` wrote; a file changed since then is refused."""
        try:
            with open(path, encoding="utf-8") as handle:
                content = json.load(handle)
            said = (content.pop("format"), content.pop("fingerprint"))
            for part in PARTS:
                content[part] = np.array(content[part], dtype=np.int64)
            protocol = cls(**content)
        except FileNotFoundError as error:
            raise DataError(f"There is no protocol file {path}.") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise DataError(f"{path} is not a whole protocol file: {error}.") from error
        if said != (FORMAT, protocol.fingerprint):
            raise DataError(
                f"{path} says {said[0]!r} with fingerprint {said[1]}, but its rows give {FORMAT!r} with "
                f"{protocol.fingerprint}: the file was changed."
            )
        return protocol

    @classmethod
    def draw(
        cls,
        labels: np.ndarray,
        *,
        query_per_class: int,
        train_per_class: int | None = None,
        validation_per_class: int = 0,
        train_in_database: bool = True,
        seed: int,
        name: str,
        label_names: list[str] | None = None,
        source_fingerprint: str = "",
    ) -> "Protocol":
        """Query rows first, then training rows from the rest; the database is everything but the queries.

        ``train_per_class=None`` trains on the whole labelled database. Validation rows are taken out of the
        training rows and stay in the database. Unlabelled rows are only in the database. With several labels
        a row "100 per class" is read as in :func:`scdh.data.draw.take_per_class`.
        """
        labels = np.asarray(labels)
        rng = seeded(seed)
        order = rng.permutation(np.flatnonzero(is_labelled(labels)))
        query = take_per_class(labels, order, query_per_class, "query", label_names)
        rest = order[~np.isin(order, query)]
        train = rest
        if train_per_class is not None:
            train = take_per_class(labels, rest, train_per_class, "training", label_names)
        kept = np.isin(np.arange(len(labels)), query, invert=True)
        if not train_in_database:
            kept[train] = False
        validation = take_per_class(labels, train, validation_per_class, "validation", label_names)
        train = train[~np.isin(train, validation)]
        if not len(train):
            raise DataError(f"Protocol {name!r} leaves no rows to train on.")
        return cls(name, seed, train, query, np.flatnonzero(kept), validation, source_fingerprint).check(len(labels))

    @classmethod
    def from_split(
        cls,
        source: Source,
        *,
        train: str | tuple[str, ...] = "train",
        query: str | tuple[str, ...] = "test",
        database: str | tuple[str, ...] = "train",
        validation: str | None = None,
        validation_per_class: int = 0,
        seed: int = 0,
        name: str = "split",
    ) -> "Protocol":
        """The division that comes with the data. ``validation`` names a part of it, or
        ``validation_per_class`` rows a class are taken out of the training rows. Unlabelled rows are
        searched but neither asked nor trained.
        """
        labelled = source.labelled
        parts = {"train": train, "query": query, "database": database}
        rows = {part: _rows_of(source, words) for part, words in parts.items()}
        learn, ask = (rows[part][labelled[rows[part]]] for part in ("train", "query"))
        held = np.empty(0, np.int64)
        if validation is not None:
            held = _rows_of(source, validation)
            held = held[labelled[held]]
        elif validation_per_class:
            order = seeded(seed).permutation(learn)
            held = take_per_class(source.labels, order, validation_per_class, "validation", source.label_names)
        learn = learn[~np.isin(learn, held)]
        for part, found in (("training", learn), ("query", ask)):
            if not len(found):
                raise DataError(f"{source.name} has no labelled {part} rows in its own split.")
        protocol = cls(name, seed, learn, ask, rows["database"], held, source.fingerprint())
        return protocol.check(len(source))


def _rows_of(source: Source, words: str | tuple[str, ...]) -> np.ndarray:
    if source.split is None:
        raise DataError(f"{source.name} does not come divided into parts; draw a protocol instead.")
    wanted = (words,) if isinstance(words, str) else tuple(words)
    known = sorted({str(word) for word in source.split})
    for word in wanted:
        if word not in known:
            raise DataError(f"{source.name} has no part {word!r}; its parts are {', '.join(known)}.")
    return np.flatnonzero(np.isin(source.split, wanted))
