"""Names and labels of rows, in a JSON file beside a codes or index file.

Codes and indexes hold numbers only. ``photos.codes.items.json`` says which photo row 17 is and which labels it has, so
that a search can show names and an evaluation has its labels.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scdh.data.source import Source
from scdh.errors import CodesError, DataError
from scdh.files import replacing
from scdh.label_arrays import is_labelled, multi_hot, renumbered
from scdh.printable import json_text

FORMAT = "scdh items 1"


@dataclass(frozen=True, eq=False)
class RowNames:
    """Names and labels of n rows, in the order of the codes.

    Args:
        ids: int64 [n], the ids of the codes.
        names: list of n str.
        labels: int64 [n] with −1 for no label, or uint8 multi-hot [n, C].
        label_names: list of C str.
    """

    ids: np.ndarray
    names: list[str]
    labels: np.ndarray
    label_names: list[str]

    @classmethod
    def from_source(cls, source: Source, rows: np.ndarray) -> "RowNames":
        """Those of the rows ``rows``, int64 [n], of a source; the row numbers become the ids."""
        names = [source.item_name(row) for row in rows.tolist()]
        return cls(rows, names, source.labels[rows], list(source.label_names))

    @property
    def labelled(self) -> bool:
        """Whether any row has a label."""
        return bool(is_labelled(self.labels).any())

    def label(self, row: int) -> str:
        """The names of a row's labels, joined by commas; empty for a row without label."""
        return ", ".join(self.label_list(row))

    def label_list(self, row: int) -> list[str]:
        """The names of a row's labels."""
        if self.labels.ndim == 1:
            number = int(self.labels[row])
            return [] if number < 0 else [self.label_names[number]]
        return [self.label_names[i] for i in np.flatnonzero(self.labels[row])]

    def names_of(self, ids: ArrayLike) -> np.ndarray:
        """Names of the items with these ids, such as ``hits.ids`` of a search; an array of str of the same shape.

        >>> RowNames(np.array([7, 9]), ["SKU-17", "SKU-4"], np.array([-1, -1]), []).names_of([[9, 7]]).tolist()
        [['SKU-4', 'SKU-17']]
        """
        name_of, wanted = dict(zip(self.ids.tolist(), self.names, strict=True)), np.asarray(ids, np.int64)
        unknown = [row_id for row_id in wanted.ravel().tolist() if row_id not in name_of]
        if unknown:
            raise DataError(f"Id {unknown[0]} has no name; there are names of {len(name_of)} other ids.")
        names = np.empty(wanted.size, object)
        names[:] = [name_of[row_id] for row_id in wanted.ravel().tolist()]
        return names.reshape(wanted.shape)

    def ids_of(self, name: str) -> list[int]:
        """Ids of the items of this name: none, one, or several."""
        return [int(row_id) for row_id, own in zip(self.ids, self.names, strict=True) if own == name]

    def labels_among(self, names: list[str], multi: bool) -> np.ndarray:
        """Labels numbered as in ``names``, since the same number may mean different classes in two files.

        Args:
            names: list of C str that contains all of ``label_names``.
            multi: give multi-hot labels even where a row has one label at most.

        Returns:
            int64 [n], or uint8 [n, C].
        """
        numbers = {name: i for i, name in enumerate(names)}
        unknown = [name for name in self.label_names if name not in numbers]
        if unknown:
            raise DataError(f"The label {unknown[0]!r} is not among the {len(names)} label names.")
        new_numbers = np.array([numbers[name] for name in self.label_names], np.int64)
        labels = renumbered(self.labels, new_numbers, len(names))
        return multi_hot(labels, len(names)) if multi and labels.ndim == 1 else labels

    def take(self, rows: np.ndarray) -> "RowNames":
        """Those at the positions ``rows``, int64 [m]."""
        return RowNames(self.ids[rows], [self.names[row] for row in rows.tolist()], self.labels[rows], self.label_names)

    def save(self, path: Path) -> None:
        """Write the JSON file that belongs to the codes or index file ``path``; it appears whole or not at all."""
        multi = self.labels.ndim == 2
        content = {
            "format": FORMAT,
            "multi_label": multi,
            "label_names": self.label_names,
            "ids": self.ids.tolist(),
            "names": self.names,
            "labels": [np.flatnonzero(row).tolist() for row in self.labels] if multi else self.labels.tolist(),
        }
        with replacing(row_names_file(path)) as temporary:
            temporary.write_text(json_text(content), "utf-8")

    @classmethod
    def load(cls, path: Path, ids: np.ndarray | None, count: int, *, may_have_more: bool = False) -> "RowNames | None":
        """The names and labels that belong to the codes or index file ``path``; None where there is no such file.

        Args:
            path: the codes or index file.
            ids: int64 [count], the ids it has; None for 0 … count − 1.
            count: its number of codes.
            may_have_more: ignore rows with other ids. An index is written after its names, so a crash in between
                leaves names of rows that the index does not have yet.
        """
        file = row_names_file(path)
        row_names = cls.read(file)
        if row_names is None:
            return None
        expected = np.arange(count) if ids is None else ids
        if may_have_more and len(row_names.ids) > count:
            row_names = row_names.take(np.flatnonzero(np.isin(row_names.ids, expected)))
        if not np.array_equal(row_names.ids, expected):
            raise CodesError(f"{file} does not belong to {path}: its {len(row_names.ids)} rows have other ids.")
        return row_names

    @classmethod
    def read(cls, file: str | Path) -> "RowNames | None":
        """What ``save`` wrote; None if there is no such file."""
        try:
            content = json.loads(Path(file).read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise CodesError(f"{file} cannot be read as JSON: {error}.") from None
        try:
            if content["format"] != FORMAT:
                raise CodesError(f"{file} names the format {content['format']!r}, but {FORMAT!r} was expected.")
            row_names = cls(
                np.array(content["ids"], np.int64),
                list(content["names"]),
                _parse_labels(content),
                list(content["label_names"]),
            )
        except (KeyError, TypeError, IndexError, ValueError) as error:
            if isinstance(error, CodesError):
                raise
            raise CodesError(f"{file} is not a whole file of item names: {error!r}.") from None
        if not len(row_names.ids) == len(row_names.names) == len(row_names.labels):
            raise CodesError(f"{file} is not a whole file of item names: its columns have different lengths.")
        return row_names


def row_names_file(path: Path) -> Path:
    """The JSON file that belongs to the codes or index file ``path``."""
    return path.with_name(path.name + ".items.json")


def joined(parts: list[RowNames], ids: np.ndarray) -> RowNames:
    """The rows of all parts with the new ``ids``, int64 [n], in ascending order of these; labels are united by name."""
    names, multi = label_union(parts)
    labels = np.concatenate([part.labels_among(names, multi) for part in parts])
    unsorted = RowNames(ids, [name for part in parts for name in part.names], labels, names)
    return unsorted.take(np.argsort(ids))


def label_union(parts: list[RowNames]) -> tuple[list[str], bool]:
    """All label names in order of first occurrence, and whether any part has multi-hot labels."""
    names = list(dict.fromkeys(name for part in parts for name in part.label_names))
    return names, any(part.labels.ndim == 2 for part in parts)


def _parse_labels(content: dict[str, Any]) -> np.ndarray:
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
