"""Open parquet files, CSV files and Hugging Face data sets as one Arrow table."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from scdh.data.regular_files import check_readable
from scdh.data.source import Source
from scdh.data.split_words import part_name, parts_of_files
from scdh.data.tables.column_names import VECTOR_COLUMNS, class_names, hugging_face_features
from scdh.data.tables.split_columns import choose_split_column
from scdh.data.tables.table import open_table
from scdh.data.tables.vectors import vectors_of_text
from scdh.errors import DataError
from scdh.extras import lack_message

PROBED_CELLS = 3
OLDEST_DATASETS = (2, 20)  # earlier ones run the program of a data set without asking
NO_SCRIPTS = (4, 0)  # from here on there is no such program, and no setting for it
LARGE = 2 * 1024**3  # bytes of parquet above which rows are mapped from disk instead of read into memory


def open_parquet(files: list[Path], *, folder: Path | None = None, **columns: Any) -> Source:
    """One or more parquet files of the same columns, in the order given.

    Args:
        files: if the names of several files indicate parts (``train-00000-of-00005.parquet``), and no column does, they
            define the split.
        folder: what paths are relative to; None for the first file's folder.
        columns: further options of :func:`scdh.data.tables.table.open_table`.
    """
    for file in files:
        check_readable(file)
    try:
        parts = [(file.name, pq.ParquetFile(file).metadata.num_rows) for file in files]
        if sum(file.stat().st_size for file in files) > LARGE:
            dataset = _datasets().load_dataset("parquet", data_files=[str(f) for f in files], split="train")
            table = _arrow_table(dataset)
        else:
            tables = [pq.read_table(file) for file in files]
            _check_class_names(files, tables)
            table = pa.concat_tables(tables)
        table.column_names  # noqa: B018 (decodes them, which fails where they are damaged)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{_file_names(files)} cannot be read as parquet: {_first_line(error)}.") from error
    name, folder = _file_names(files), folder or files[0].parent
    if len(files) > 1 and choose_split_column(table, name, columns.get("split_column")) is None:
        columns |= {"split": _split_from_file_names(parts), "split_origin": f"names of the {len(files)} files"}
    return open_table(table, name=name, parts=parts, folder=folder, **columns)


def open_csv(file: Path, *, folder: Path | None = None, vector_column: str | None = None, **columns: Any) -> Source:
    """A column of paths, or of embeddings such as "[0.5, -1]", and one of labels."""
    check_readable(file)
    try:
        with open(file, newline="", encoding="utf-8-sig") as handle:
            delimiter = _delimiter(handle.readline())
            handle.seek(0)
            header = next(csv.reader(handle, delimiter=delimiter), [])
        # Everything as text: guessing types would turn "007" into 7 and an empty cell into something else.
        all_text = pa.csv.ConvertOptions(column_types={name: pa.string() for name in header})
        parsed = pa.csv.ParseOptions(delimiter=delimiter)
        table = pa.csv.read_csv(file, parse_options=parsed, convert_options=all_text)
        header = [name.strip() for name in header]
        table = table.rename_columns([name.strip() for name in table.column_names])  # "path, label" has a blank
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file} cannot be read as CSV: {_first_line(error)}.") from error
    if len(set(header)) != len(header):
        raise DataError(f"{file.name} names a column twice: {', '.join(header)}.")
    for position, column in enumerate(table.column_names):
        is_named = vector_column is not None and column.lower() == vector_column.lower()
        if table.num_rows and (is_named or (column.lower() in VECTOR_COLUMNS and _is_bracketed(table[column]))):
            vectors = vectors_of_text(table[column], f"column {column!r} of {file.name}")
            table = table.set_column(position, column, vectors)
    return open_table(
        table, name=file.name, folder=folder or file.parent, vector_column=vector_column, is_text=True, **columns
    )


def _delimiter(first_line: str) -> str:
    """The separator of the column names: a semicolon or tab, as written by spreadsheets, if there is no comma."""
    return next((mark for mark in (",", ";", "\t") if mark in first_line), ",")


def _is_bracketed(cells: pa.ChunkedArray) -> bool:
    """Whether the first cells look like "[0.5, -1]"."""
    return all(str(cell or "").strip().startswith("[") for cell in cells.slice(0, PROBED_CELLS).to_pylist())


def open_hub(spec: str, **columns: Any) -> Source:
    """The hub's owner/name:split, or owner/name for all its splits, which become ``Source.split``."""
    repository, _, split = spec.partition(":")
    datasets = _datasets()
    try:
        loaded = datasets.load_dataset(repository, split=split or None, **_without_scripts(datasets))
    except Exception as error:  # the hub raises many kinds: no network, no such name, no such split, gated
        raise DataError(f"The Hugging Face data set {spec!r} cannot be loaded: {_first_line(error)}.") from error
    splits = dict(loaded) if isinstance(loaded, dict) else {split or repository: loaded}
    table = pa.concat_tables([_arrow_table(part) for part in splits.values()])
    parts = [(f"{repository} {name}", len(part)) for name, part in splits.items()]
    if len(splits) > 1 and columns.get("split_column") is None:
        names = np.array([part_name(name) for name in splits])
        rows = [len(part) for part in splits.values()]
        columns |= {"split": np.repeat(names, rows), "split_origin": "splits of the hub"}
    return open_table(table, name=f"hf:{spec}", parts=parts, **columns)


def _check_class_names(files: list[Path], tables: list[pa.Table]) -> None:
    """Raise an error if files number their classes differently: their labels cannot be joined."""
    first = {c: class_names(f) for c, f in hugging_face_features(tables[0].schema).items()}
    for file, table in zip(files, tables, strict=True):
        for column, feature in hugging_face_features(table.schema).items():
            if first.get(column) != class_names(feature):
                raise DataError(f"{files[0].name} and {file.name} name the classes of {column!r} differently.")


def _split_from_file_names(parts: list[tuple[str, int]]) -> np.ndarray | None:
    """str [n], the part indicated by each row's file name; None if there is none."""
    words = parts_of_files([file for file, _ in parts])
    return None if words is None else np.repeat(words, [rows for _, rows in parts])


def _arrow_table(dataset: Any) -> pa.Table:
    """The memory-mapped table of a `datasets.Dataset`, with the names of its classes."""
    return dataset.data.table.replace_schema_metadata(dataset.features.arrow_schema.metadata)


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise DataError(lack_message("A hub name, or parquet above 2 GB,", "datasets")) from error
    if _version(datasets) < OLDEST_DATASETS:
        oldest = ".".join(map(str, OLDEST_DATASETS))
        raise DataError(
            f"The package datasets {datasets.__version__} runs programs that data sets bring along; {oldest} or later "
            f"is needed: pip install 'datasets>={oldest}'."
        )
    return datasets


def _version(package: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", package.__version__)[:2])


def _without_scripts(datasets: Any) -> dict[str, Any]:
    """The option that disables a data set's own program, even if the environment allows it; later versions run none."""
    return {"trust_remote_code": False} if _version(datasets) < NO_SCRIPTS else {}


def _file_names(files: list[Path]) -> str:
    return files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
