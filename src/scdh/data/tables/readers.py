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
    NO_LABELS,
    SPLIT_COLUMN,
    UNLABELLED,
    choose_image_column,
    choose_label_columns,
    class_names,
    hugging_face_features,
    part_name,
)
from scdh.errors import DataError
from scdh.extras import lack_message

LARGE = 2 * 1024**3  # bytes of parquet above which rows are mapped from disk instead of read into memory
SEPARATORS = ";|"


def open_parquet(files: list[Path], *, folder: Path | None = None, **columns: Any) -> ArrowSource:
    """One or more parquet files of the same columns, in the order given.

    Args:
        files: where several files' names begin with train, val, test or unlabelled
            (``train-00000-of-00005.parquet``), these give the split.
        folder: what paths are relative to; None for the first file's folder.
        columns: ``image_column``, ``label_column``, ``split_column`` or ``split`` of :class:`ArrowSource`.
    """
    try:
        parts = [(file.name, pq.ParquetFile(file).metadata.num_rows) for file in files]
        if sum(file.stat().st_size for file in files) > LARGE:
            dataset = _datasets().load_dataset("parquet", data_files=[str(f) for f in files], split="train")
            table = _arrow_table(dataset)
        else:
            tables = [pq.read_table(file) for file in files]
            _refuse_other_class_names(files, tables)
            table = pa.concat_tables(tables)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{_file_names(files)} cannot be read as parquet: {_first_line(error)}.") from error
    split = columns.pop("split", None)
    if split is None and len(files) > 1 and SPLIT_COLUMN not in table.column_names:
        split = _split_from_file_names(parts)
    folder = folder or files[0].parent
    return ArrowSource(table, name=_file_names(files), parts=parts, folder=folder, split=split, **columns)


def open_csv(file: Path, *, folder: Path | None = None, label_column: str | None = None, **columns: Any) -> ArrowSource:
    """A column of paths and one of labels; several labels in a cell are separated by ; or |."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as handle:
            header = next(csv.reader(handle), [])
        # Everything as text: guessing types would turn "007" into 7 and an empty cell into something else.
        all_text = pa.csv.ConvertOptions(column_types={name: pa.string() for name in header})
        table = pa.csv.read_csv(file, convert_options=all_text)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: {_first_line(error)}.") from error
    if len(set(header)) != len(header):
        raise DataError(f"{file.name} names a column twice: {', '.join(header)}.")
    image_column = choose_image_column(table, file.name, columns.get("image_column"))
    label_columns = choose_label_columns(table, file.name, label_column, image_column)
    for column in label_columns:
        position = table.column_names.index(column)
        table = table.set_column(position, column, pa.chunked_array([_parse_label_cells(table[column])]))
    label_column = ",".join(label_columns) if label_columns else NO_LABELS
    folder = folder or file.parent
    return ArrowSource(table, name=file.name, folder=folder, label_column=label_column, **columns)


def open_hub(spec: str, **columns: Any) -> ArrowSource:
    """The hub's owner/name:split, or owner/name for all its splits, which become ``Source.split``."""
    repository, _, split = spec.partition(":")
    datasets = _datasets()
    try:
        loaded = datasets.load_dataset(repository, split=split or None)
    except Exception as error:  # the hub raises many kinds: no network, no such name, no such split, gated
        raise DataError(f"The Hugging Face data set {spec!r} cannot be loaded: {_first_line(error)}.") from error
    splits = {split: loaded} if split else dict(loaded)
    table = pa.concat_tables([_arrow_table(part) for part in splits.values()])
    parts = [(f"{repository} {name}", len(part)) for name, part in splits.items()]
    part_names = np.array([part_name(name) for name, part in splits.items() for _ in range(len(part))])
    return ArrowSource(table, name=f"hf:{spec}", parts=parts, split=None if split else part_names, **columns)


def _refuse_other_class_names(files: list[Path], tables: list[pa.Table]) -> None:
    """Class numbers refer to the names in their own file, so files with different names cannot be joined."""
    first = {c: class_names(f) for c, f in hugging_face_features(tables[0].schema).items()}
    for file, table in zip(files, tables, strict=True):
        for column, feature in hugging_face_features(table.schema).items():
            if first.get(column) != class_names(feature):
                raise DataError(f"{files[0].name} and {file.name} name the classes of {column!r} differently.")


def _split_from_file_names(parts: list[tuple[str, int]]) -> np.ndarray | None:
    """str [n], the part that each row's file name begins with; None unless all of them do."""
    names = [part_name(re.split(r"[-_.]", file.lower())[0]) for file, _ in parts]
    if not set(names) <= {"train", "val", "test", UNLABELLED}:
        return None
    return np.repeat(names, [rows for _, rows in parts])


def _parse_label_cells(cells: pa.ChunkedArray) -> pa.Array:
    """Cells of text → lists where a separator occurs anywhere, integers where all cells are, else text."""
    values = [(cell or "").strip() for cell in cells.to_pylist()]
    if any(sign in value for value in values for sign in SEPARATORS):
        lists = [[label.strip() for label in value.replace("|", ";").split(";") if label.strip()] for value in values]
        if _all_whole([label for row in lists for label in row]):
            return pa.array([[int(label) for label in row] for row in lists], pa.list_(pa.int64()))
        return pa.array(lists, pa.list_(pa.string()))
    present = [value for value in values if value]
    if present and _all_whole(present):
        return pa.array([int(value) if value else None for value in values], pa.int64())
    return pa.array(values, pa.string())


def _all_whole(texts: list[str]) -> bool:
    """Whether all are integers in their usual form; "007" is not."""
    return all(text.removeprefix("-").isdecimal() and str(int(text)) == text for text in texts)


def _arrow_table(dataset: Any) -> pa.Table:
    """The memory-mapped table of a `datasets.Dataset`, with the names of its classes."""
    return dataset.data.table.replace_schema_metadata(dataset.features.arrow_schema.metadata)


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise DataError(lack_message("A hub name, or parquet above 2 GB,", "datasets")) from error
    return datasets


def _file_names(files: list[Path]) -> str:
    return files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
