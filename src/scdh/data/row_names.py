"""Names and labels of rows: which photo row 17 is, and which labels it has.

A search shows these names, and an evaluation uses the labels; :mod:`scdh.data.name_files` stores both.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from scdh.data.packed_texts import PackedTexts
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.label_arrays import is_labelled, multi_hot, renumbered


@dataclass(frozen=True, eq=False)
class RowNames:
    """Names and labels of n rows, in the order of the codes.

    Args:
        ids: int64 [n], the ids of the codes.
        names: n str, a list or another sequence.
        labels: int64 [n] with −1 for no label, or uint8 multi-hot [n, C].
        label_names: list of C str.
    """

    ids: np.ndarray
    names: Sequence[str]
    labels: np.ndarray
    label_names: list[str]

    @classmethod
    def from_source(cls, source: Source, rows: np.ndarray) -> "RowNames":
        """The names and labels of the rows ``rows``, int64 [n], of a source; the row numbers become the ids."""
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
        wanted = np.asarray(ids, np.int64)
        positions = self.positions_of(wanted.ravel())
        if (positions < 0).any():
            unknown = wanted.ravel()[positions < 0][0]
            raise DataError(f"Id {unknown} has no name; there are names of {len(self.ids)} other ids.")
        names = np.empty(wanted.size, object)
        names[:] = [self.names[position] for position in positions.tolist()]
        return names.reshape(wanted.shape)

    def positions_of(self, ids: np.ndarray) -> np.ndarray:
        """The row of each of these ids, int64 [m]; −1 for an unknown id."""
        if not len(self.ids):
            return np.full(len(ids), -1)
        order = self._order
        places = np.searchsorted(self.ids, ids, sorter=order).clip(max=len(self.ids) - 1)
        rows = places if order is None else order[places]
        return np.where(self.ids[rows] == ids, rows, -1)

    def position(self, row_id: int) -> int | None:
        """The row of an id; None if there is none."""
        if not -(1 << 63) <= row_id < 1 << 63:  # typed by someone, as no array holds it
            return None
        row = int(self.positions_of(np.array([row_id], np.int64))[0])
        return None if row < 0 else row

    @cached_property
    def _order(self) -> np.ndarray | None:
        """Rows by ascending id; None if they are in this order already."""
        return None if np.all(self.ids[1:] > self.ids[:-1]) else np.argsort(self.ids, kind="stable")

    def ids_of(self, name: str) -> list[int]:
        """Ids of the items with this name: none, one, or several."""
        return [int(row_id) for row_id, own in zip(self.ids, self.names, strict=True) if own == name]

    def ids_with_labels(self, labels: Iterable[str]) -> np.ndarray:
        """int64, ids of the items that have one of these labels, of which each must be among ``label_names``."""
        wanted = [self.label_names.index(label) for label in labels]
        if self.labels.ndim == 1:
            return self.ids[np.isin(self.labels, wanted)]
        return self.ids[self.labels[:, wanted].any(axis=1)]

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
        """The names and labels at the positions ``rows``, int64 [m]."""
        return RowNames(self.ids[rows], [self.names[row] for row in rows.tolist()], self.labels[rows], self.label_names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store these with the codes or index file ``path``, which must exist; earlier names are replaced.

        A codes file is rewritten with the names inside, in one step. The names of an index go into a file next to it.
        """
        from scdh.data.name_files import save_names

        save_names(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        ids: np.ndarray | None = None,
        count: int | None = None,
        *,
        may_have_more: bool = False,
    ) -> "RowNames | None":
        """The names and labels that belong to the codes or index file ``path``; None if there are none.

        Args:
            path: the codes or index file.
            ids: int64 [count], the ids it has; None for 0 … count − 1.
            count: its number of codes; None: ids are not compared.
            may_have_more: ignore rows with other ids. An index is written after its names, so a crash in between
                leaves names of rows that the index does not have yet.
        """
        from scdh.data.name_files import load_names, matching

        row_names = load_names(path)
        if row_names is None or count is None:
            return row_names
        return matching(row_names, np.arange(count) if ids is None else ids, path, may_have_more=may_have_more)

    @classmethod
    def read(cls, file: str | os.PathLike[str]) -> "RowNames | None":
        """Read one file of names; None if the file does not exist."""
        from scdh.data.name_files import read_names_file

        return read_names_file(file)


def joined(parts: list[RowNames], ids: np.ndarray) -> RowNames:
    """The rows of all parts with the new ``ids``, int64 [n], in ascending order of these; labels are united by name."""
    names, multi = label_union(parts)
    labels = np.concatenate([part.labels_among(names, multi) for part in parts])
    unsorted = RowNames(ids, PackedTexts.concatenated([part.names for part in parts]), labels, names)
    return unsorted if np.all(ids[1:] > ids[:-1]) else unsorted.take(np.argsort(ids))


def label_union(parts: list[RowNames]) -> tuple[list[str], bool]:
    """All label names in order of first occurrence, and whether any part has multi-hot labels."""
    names = list(dict.fromkeys(name for part in parts for name in part.label_names))
    return names, any(part.labels.ndim == 2 for part in parts)
