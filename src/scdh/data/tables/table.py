"""Read one Arrow table as a source: find its columns of images or embeddings, labels, ids and the split."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from scdh.data.arrays.memory import ArraySource
from scdh.data.source import Source
from scdh.data.split_words import TEST, TRAIN
from scdh.data.tables.arrow import ArrowSource, RowTitles
from scdh.data.tables.columns import (
    choose_id_column,
    choose_item_column,
    choose_label_columns,
    read_labels,
)
from scdh.data.tables.label_cells import AUTO
from scdh.data.tables.split_columns import choose_split_column, note_on_columns, read_split
from scdh.data.tables.vectors import gather_columns, read_vectors
from scdh.errors import DataError


def open_table(
    table: pa.Table,
    *,
    name: str,
    parts: list[tuple[str, int]] | None = None,
    folder: Path | None = None,
    image_column: str | None = None,
    vector_column: str | None = None,
    label_column: str | None = None,
    label_separator: str = AUTO,
    id_column: str | None = None,
    split_column: str | None = None,
    split: np.ndarray | None = None,
    split_origin: str = Source.split_origin,
    is_text: bool = False,
) -> Source:
    """The images, or the embeddings, of a table.

    Args:
        table: its image column holds struct{bytes, path}, bytes, or paths; its vector column lists of numbers.
        name: how messages call the source.
        parts: (name, number of rows) of each file the rows came from, so that messages can name file and row.
        folder: what paths are relative to; None for the current folder.
        image_column, vector_column, label_column, label_separator, id_column: as in
            :func:`scdh.data.open.open_source`.
        split_column: the column of the split; None chooses it by usual names.
        split: str array [n], in place of a split column.
        split_origin: where ``split`` comes from, for messages.
        is_text: whether the file had only text, so that a label "12" is a number.
    """
    if table.num_rows == 0:
        raise DataError(f"{name} has no rows.")
    _check_undamaged(table, name)
    folder = folder or Path()
    if vector_column is not None and "*" in vector_column and vector_column not in table.column_names:
        table = gather_columns(table, vector_column, name)
    column, kind = choose_item_column(table, name, image_column, vector_column, label_column, folder)
    label_columns = choose_label_columns(table, name, label_column, column, kind)
    split_name = None if split is not None else choose_split_column(table, name, split_column, [column, *label_columns])
    if split_name is not None:
        split, split_origin = read_split(table, name, split_name), f"column {split_name!r} of {name}"
    decides = None if split is None else split == TRAIN if (split == TRAIN).any() else split != TEST
    labels, label_names = read_labels(table, name, label_columns, label_separator, is_text, decides)
    id_name = choose_id_column(table, name, id_column, [column, *label_columns], kind)
    titles = RowTitles(parts or [(name, table.num_rows)], None if id_name is None else table[id_name])
    source: Source
    if kind == "images":
        source = ArrowSource(table[column], labels, label_names, name=name, column=column, titles=titles, folder=folder)
    else:
        vectors = read_vectors(table[column], f"column {column!r} of {name}")
        source = ArraySource(vectors, name=name, item_names=titles)
        source.labels, source.label_names = labels, label_names  # in their final form already
    source.split, source.split_origin = split, split_origin
    source.split_note = "" if split is not None else note_on_columns(table, [column, *label_columns])
    return source


def _check_undamaged(table: pa.Table, name: str) -> None:
    """Reject text that is not UTF-8, and lists and dictionaries that point outside their values; Arrow does not."""
    for column in table.column_names:
        try:
            table[column].validate(full=True)
        except pa.ArrowException as error:
            reason = (str(error).splitlines() or ["it is damaged"])[0].rstrip(".")
            raise DataError(f"Column {column!r} of {name} cannot be read: {reason}.") from None
