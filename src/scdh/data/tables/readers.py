"""Open parquet files, CSV files and Hugging Face data sets as one :class:`ArrowSource`."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from scdh.data.tables.arrow import ArrowSource
from scdh.data.tables.columns import (
    SPLIT_COLUMN,
    SPLIT_WORDS,
    UNLABELLED,
    choose_image_column,
    choose_label_columns,
    class_names,
    hugging_face_features,
)
from scdh.errors import DataError

LARGE = 2 * 1024**3  # bytes of parquet above which rows are mapped from disk instead of read into memory
SEPARATORS = ";|"


def open_parquet(files: list[Path], *, folder: Path | None = None, **columns: Any) -> ArrowSource:
    """One or more parquet files of the same columns, in the order given; names that begin with train, val,
    test or unlabelled (``train-00000-of-00005.parquet``) give the split. ``folder`` is what paths are relative to, if
    not the file's own.
    """
    try:
        parts = [(file.name, pq.ParquetFile(file).metadata.num_rows) for file in files]
        if sum(file.stat().st_size for file in files) > LARGE:
            dataset = _datasets().load_dataset("parquet", data_files=[str(f) for f in files], split="train")
            table = _arrow_table(dataset)
        else:
            tables = [pq.read_table(file) for file in files]
            _refuse_other_names(files, tables)
            table = pa.concat_tables(tables)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{_names(files)} cannot be read as parquet: {_first_line(error)}.") from error
    split = columns.pop("split", None)
    if split is None and len(files) > 1 and SPLIT_COLUMN not in table.column_names:
        split = _split_of_names(parts)
    folder = folder or files[0].parent
    return ArrowSource(table, name=_names(files), parts=parts, folder=folder, split=split, **columns)


def open_csv(file: Path, *, folder: Path | None = None, label_column: str | None = None, **columns: Any) -> ArrowSource:
    """A column of paths and one of labels; several labels in a cell are separated by ; or |."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as handle:
            header = next(csv.reader(handle), [])
        # Everything as words: guessing types would turn "007" into 7 and an empty cell into something else.
        words = pa.csv.ConvertOptions(column_types={name: pa.string() for name in header})
        table = pa.csv.read_csv(file, convert_options=words)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: {_first_line(error)}.") from error
    if len(set(header)) != len(header):
        raise DataError(f"{file.name} names a column twice: {', '.join(header)}.")
    image_column = choose_image_column(table, file.name, columns.get("image_column"))
    chosen = choose_label_columns(table, file.name, label_column, image_column)
    for column in chosen:
        place = table.column_names.index(column)
        table = table.set_column(place, column, pa.chunked_array([_label_cells(table[column])]))
    label_column = ",".join(chosen) if chosen else "none"
    folder = folder or file.parent
    return ArrowSource(table, name=file.name, folder=folder, label_column=label_column, **columns)


def open_hub(spec: str, **columns: Any) -> ArrowSource:
    """The hub's owner/name, or owner/name:split; without a split all of them, kept apart in ``split``."""
    repository, _, split = spec.partition(":")
    datasets = _datasets()
    try:
        loaded = datasets.load_dataset(repository, split=split or None)
    except Exception as error:  # the hub raises many kinds: no network, no such name, no such split, gated
        raise DataError(f"The Hugging Face data set {spec!r} cannot be loaded: {_first_line(error)}.") from error
    splits = {split: loaded} if split else dict(loaded)
    table = pa.concat_tables([_arrow_table(part) for part in splits.values()])
    words = [SPLIT_WORDS.get(name, name) for name, part in splits.items() for _ in range(len(part))]
    parts = [(f"{repository} {name}", len(part)) for name, part in splits.items()]
    kept = None if split else np.array(words)
    return ArrowSource(table, name=f"hf:{spec}", parts=parts, split=kept, **columns)


def _refuse_other_names(files: list[Path], tables: list[pa.Table]) -> None:
    """Numbers of classes mean the names of their own file, so files with other names cannot be put together."""
    first = {c: class_names(f) for c, f in hugging_face_features(tables[0].schema).items()}
    for file, table in zip(files, tables, strict=True):
        for column, feature in hugging_face_features(table.schema).items():
            if first.get(column) != class_names(feature):
                raise DataError(f"{files[0].name} and {file.name} name the classes of {column!r} differently.")


def _split_of_names(parts: list[tuple[str, int]]) -> np.ndarray | None:
    """The parts that the files' names say, when all of them do."""
    words = [re.split(r"[-_.]", name.lower())[0] for name, _ in parts]
    words = [SPLIT_WORDS.get(word, word) for word in words]
    if not set(words) <= {"train", "val", "test", UNLABELLED}:
        return None
    return np.repeat(words, [rows for _, rows in parts])


def _label_cells(cells: pa.ChunkedArray) -> pa.Array:
    """Cells of words → lists where a separator occurs, whole numbers where all are, else words."""
    values = [(cell or "").strip() for cell in cells.to_pylist()]
    if any(sign in value for value in values for sign in SEPARATORS):
        lists = [[word.strip() for word in value.replace("|", ";").split(";") if word.strip()] for value in values]
        if _all_whole([word for row in lists for word in row]):
            return pa.array([[int(word) for word in row] for row in lists], pa.list_(pa.int64()))
        return pa.array(lists, pa.list_(pa.string()))
    present = [value for value in values if value]
    if present and _all_whole(present):
        return pa.array([int(value) if value else None for value in values], pa.int64())
    return pa.array(values, pa.string())


def _all_whole(words: list[str]) -> bool:
    """Whole numbers in their plain spelling; "007" stays a word."""
    return all(word.removeprefix("-").isdecimal() and str(int(word)) == word for word in words)


def _arrow_table(dataset: Any) -> pa.Table:
    """The memory-mapped table behind a `datasets.Dataset`, with the names of its classes."""
    return dataset.data.table.replace_schema_metadata(dataset.features.arrow_schema.metadata)


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise DataError("Hub names and parquet above 2 GB need the package datasets: pip install scdh[hub].") from error
    return datasets


def _names(files: list[Path]) -> str:
    return files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
