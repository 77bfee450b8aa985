"""What codes stand for: names and labels of the rows, in a JSON file beside a codes or index file.

Codes and indexes hold numbers only. ``photos.codes.items.json`` says which photo row 17 is and what it shows, so that a
search can answer with names and an evaluation finds its labels.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scdh.data.source import Source
from scdh.errors import CodesError, DataError
from scdh.files import replacing
from scdh.label_arrays import is_labelled, multi_hot, renumbered

FORMAT = "scdh items 1"


@dataclass(frozen=True, eq=False)
class RowNames:
    """Rows in the order of the codes. ``labels`` is int64 [n] (−1: none) or uint8 multi-hot [n, C]."""

    ids: np.ndarray
    names: list[str]
    labels: np.ndarray
    label_names: list[str]

    @classmethod
    def of(cls, source: Source, rows: np.ndarray) -> "RowNames":
        names = [source.item_name(row) for row in rows.tolist()]
        return cls(rows, names, source.labels[rows], list(source.label_names))

    @property
    def labelled(self) -> bool:
        """Whether any row carries a label."""
        return bool(is_labelled(self.labels).any())

    def label(self, row: int) -> str:
        """The label of a row in words, several joined by commas."""
        if self.labels.ndim == 1:
            number = int(self.labels[row])
            return "" if number < 0 else self.label_names[number]
        return ", ".join(self.label_names[i] for i in np.flatnonzero(self.labels[row]))

    def labels_among(self, names: list[str], multi: bool) -> np.ndarray:
        """Labels numbered as in ``names``: two files count their own classes, so only names mean the same in both."""
        number = {name: i for i, name in enumerate(names)}
        new_numbers = np.array([number[name] for name in self.label_names], np.int64)
        labels = renumbered(self.labels, new_numbers, len(names))
        return multi_hot(labels, len(names)) if multi and labels.ndim == 1 else labels

    def save(self, path: Path) -> None:
        """Beside the codes or index file ``path``; whole or not at all."""
        many = self.labels.ndim == 2
        content = {
            "format": FORMAT,
            "multi_label": many,
            "label_names": self.label_names,
            "ids": self.ids.tolist(),
            "names": self.names,
            "labels": [np.flatnonzero(row).tolist() for row in self.labels] if many else self.labels.tolist(),
        }
        with replacing(row_names_file(path)) as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=False), "utf-8")

    def chosen(self, rows: np.ndarray) -> "RowNames":
        return RowNames(self.ids[rows], [self.names[row] for row in rows.tolist()], self.labels[rows], self.label_names)

    @classmethod
    def load(cls, path: Path, ids: np.ndarray | None, count: int, *, may_have_more: bool = False) -> "RowNames | None":
        """The items of the file ``path`` with these ids; None where nobody wrote any.

        An index is written after its items, so a kill in between leaves items that the index does not have yet;
        ``may_have_more`` passes over them.
        """
        file = row_names_file(path)
        items = cls.read(file)
        if items is None:
            return None
        expected = np.arange(count) if ids is None else ids
        if may_have_more and len(items.ids) > count:
            items = items.chosen(np.flatnonzero(np.isin(items.ids, expected)))
        if not np.array_equal(items.ids, expected):
            raise CodesError(f"{file} does not belong to {path}: its {len(items.ids)} rows have other ids.")
        return items

    @classmethod
    def read(cls, file: Path) -> "RowNames | None":
        """What ``save`` wrote; None if there is no such file."""
        try:
            content = json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise CodesError(f"{file} cannot be read as JSON: {error}.") from None
        try:
            if content["format"] != FORMAT:
                raise CodesError(f"{file} names the format {content['format']!r}, but {FORMAT!r} was expected.")
            items = cls(
                np.array(content["ids"], np.int64),
                list(content["names"]),
                _labels(content),
                list(content["label_names"]),
            )
        except (KeyError, TypeError, IndexError, ValueError) as error:
            if isinstance(error, CodesError):
                raise
            raise CodesError(f"{file} is not a whole file of item names: {error!r}.") from None
        if not len(items.ids) == len(items.names) == len(items.labels):
            raise CodesError(f"{file} is not a whole file of item names: its columns have different lengths.")
        return items


def row_names_file(path: Path) -> Path:
    return path.with_name(path.name + ".items.json")


def joined(parts: list[RowNames], ids: np.ndarray) -> RowNames:
    """Rows of several files with new ``ids``, in ascending order of these, labels united by name."""
    names, multi = label_union(parts)
    labels = np.concatenate([part.labels_among(names, multi) for part in parts])
    together = RowNames(ids, [name for part in parts for name in part.names], labels, names)
    return together.chosen(np.argsort(ids))


def label_union(parts: list[RowNames]) -> tuple[list[str], bool]:
    """All label names in the order they come up, and whether the rows need many labels."""
    names = list(dict.fromkeys(name for part in parts for name in part.label_names))
    return names, any(part.labels.ndim == 2 for part in parts)


def _labels(content: dict[str, Any]) -> np.ndarray:
    if not content["multi_label"]:
        labels = np.array(content["labels"], np.int64)
        if len(labels) and not -1 <= labels.min() <= labels.max() < len(content["label_names"]):
            raise DataError(f"a label is outside 0 to {len(content['label_names']) - 1}")
        return labels
    hot = np.zeros((len(content["labels"]), len(content["label_names"])), np.uint8)
    for row, labels in enumerate(content["labels"]):
        if labels and not 0 <= min(labels) <= max(labels) < hot.shape[1]:
            raise DataError(f"a label is outside 0 to {hot.shape[1] - 1}")
        hot[row, labels] = 1
    return hot
