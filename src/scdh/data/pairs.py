"""Pairs of items that are known to be similar or not: what training learns from where there are no labels.

A table has the columns ``a``, ``b`` and ``similar``. The first two name items: by the name that results show (an id or
a path), by the path within the folder, or, where rows have no names of their own, by row number. ``similar`` is 1, 0,
or a number between: the probability that the two are similar.
"""

import csv
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scdh.data.regular_files import check_readable
from scdh.errors import DataError, unknown_name

if TYPE_CHECKING:
    from scdh.data.source import Source

COLUMNS = ("a", "b", "similar")
WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
HALF = 0.5  # from here on a pair counts as similar, where only yes or no can be used


@dataclass(frozen=True, eq=False)
class Pairs:
    """Known pairs of rows, each once.

    Args:
        a, b: int64 [m], row numbers, a < b.
        similar: float32 [m], probability that the two rows are similar.
    """

    a: np.ndarray
    b: np.ndarray
    similar: np.ndarray

    def __len__(self) -> int:
        return len(self.a)

    @property
    def rows(self) -> np.ndarray:
        """Sorted rows that are in some pair, int64."""
        return np.union1d(self.a, self.b)

    def take(self, chosen: np.ndarray) -> "Pairs":
        return Pairs(self.a[chosen], self.b[chosen], self.similar[chosen])

    def among(self, rows: np.ndarray) -> "Pairs":
        """Pairs of two of ``rows``."""
        return self.take(np.isin(self.a, rows) & np.isin(self.b, rows))

    def with_one_of(self, rows: np.ndarray, others: np.ndarray) -> "Pairs":
        """Pairs of one of ``rows`` with another one, or with one of ``others``."""
        pairs = self.among(np.union1d(rows, others))
        return pairs.take(np.isin(pairs.a, rows) | np.isin(pairs.b, rows))

    def positions(self, rows: np.ndarray) -> "Pairs":
        """Pairs of two of ``rows``, int64 [n] in any order, with positions in ``rows`` for row numbers."""
        order = np.argsort(rows)
        known = self.among(rows)
        a, b = (order[np.searchsorted(rows, column, sorter=order)] for column in (known.a, known.b))
        return Pairs(np.minimum(a, b), np.maximum(a, b), known.similar)


def read_pairs(path: str | os.PathLike[str], source: "Source") -> Pairs:
    """The pairs of a CSV or parquet file, for the rows of ``source``.

    Raises:
        DataError: the table lacks a column or has no pairs, names an unknown item, pairs an item with itself, or has a
            value that is not a probability.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    check_readable(path)
    try:
        if path.suffix == ".parquet":
            table = {name.lower(): values for name, values in pq.read_table(path).to_pydict().items()}
        else:
            table = _read_csv(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table of pairs: {str(error).splitlines()[0]}.") from error
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise DataError(f"{path.name} has no column {missing[0]!r}; a table of pairs has the columns a, b and similar.")
    return pairs_of(zip(*(table[name] for name in COLUMNS), strict=True), source, path.name)


def _read_csv(path: Path) -> dict[str, Sequence[str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        lines = csv.reader(file, delimiter=next((mark for mark in ",;\t" if mark in first), ","))
        header = [name.strip().lower() for name in next(lines, [])]
        cells = [line for line in lines if line]
    short = next((number for number, line in enumerate(cells, 2) if len(line) != len(header)), None)
    if short is not None:
        raise DataError(f"Line {short} of {path.name} has not {len(header)} cells, as its first line has.")
    return {name: [line[i].strip() for line in cells] for i, name in enumerate(header)}


def pairs_of(values: Iterable[Sequence[Any]], source: "Source", name: str = "pairs") -> Pairs:
    """(a, b, similar) triples as pairs of rows; a pair that comes more than once gets the mean of its values."""
    triples = [tuple(value) for value in values]
    if not triples:
        raise DataError(f"{name} has no pairs.")
    if any(len(triple) != len(COLUMNS) for triple in triples):
        raise DataError(f"{name} must hold a, b and similar for each pair.")
    first, second, similar = zip(*triples, strict=True)
    rows = _rows_of(first + second, source, name)
    a, b = rows[: len(triples)], rows[len(triples) :]
    if (a == b).any():
        raise DataError(f"{name} pairs {str(first[int((a == b).argmax())])!r} with itself; a pair has two items.")
    value = np.array([_probability(cell, name) for cell in similar], np.float32)
    low, high = np.minimum(a, b), np.maximum(a, b)
    keys, positions = np.unique(low * len(source) + high, return_inverse=True)
    count = np.bincount(positions)
    mean = (np.bincount(positions, value) / count).astype(np.float32)
    disagree = int((np.bincount(positions, np.abs(value - mean[positions])) > 1e-6).sum())
    if disagree:
        warnings.warn(f"{disagree:,} pairs of {name} come with different values; their mean counts.", stacklevel=2)
    for kind, exist in (("similar", (mean > HALF).any()), ("dissimilar", (mean < HALF).any())):
        if not exist:
            raise DataError(f"{name} has no {kind} pair; both kinds are needed to learn what is similar.")
    return Pairs(keys // len(source), keys % len(source), mean)


def _probability(cell: Any, name: str) -> float:
    try:
        value = WORDS[cell.lower()] if isinstance(cell, str) and cell.lower() in WORDS else float(cell)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value <= 1:
        raise DataError(f"{name} has {cell!r} in similar; expected 1, 0 or a number between.")
    return value


def _rows_of(items: Sequence[Any], source: "Source", name: str) -> np.ndarray:
    """The row of each name or row number, int64."""
    rows = {source.item_name(row): row for row in range(len(source))}
    if source.has_paths:
        rows |= {path: row for row, path in enumerate(source.stable_names())}
    names = [str(item) for item in items]
    if not any(item in rows for item in names) and all(item.isdecimal() for item in names):
        rows = {str(row): row for row in range(len(source))}
    unknown = next((item for item in names if item not in rows), None)
    if unknown is not None:
        known = rows if len(rows) <= 1000 else list(rows)[:1000]
        raise DataError(f"{name}: {unknown_name(f'item of {source.name}', unknown, known)}")
    return np.array([rows[item] for item in names], np.int64)
