"""Find the columns of a table that hold images or embeddings, labels and ids, and read the labels."""

import warnings
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from scdh.data.labels import Encoded, encode_columns, encode_lists, encode_single
from scdh.data.tables.arrow import PROBED_PATHS, any_file
from scdh.data.tables.column_names import (
    ID_COLUMNS,
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    VECTOR_COLUMNS,
    class_names,
    columns_called,
    existing,
    hugging_face_features,
    is_text,
    listed_columns,
)
from scdh.data.tables.label_cells import AUTO, parse_label_cells
from scdh.data.tables.split_columns import choose_split_column
from scdh.data.tables.vectors import advice_on_numbers, holds_flags, holds_vectors, is_list
from scdh.errors import DataError, option_name
from scdh.label_arrays import no_labels

NO_LABELS = NO_IDS = "none"


def choose_item_column(
    table: pa.Table,
    name: str,
    image_column: str | None,
    vector_column: str | None,
    label_column: str | None,
    folder: Path,
) -> tuple[str, Literal["images", "features"]]:
    """The column of images or of embeddings: the named one, or the obvious one.

    Obvious images are a Hugging Face image or a column with a usual name; obvious embeddings a column of float lists
    with a usual name, or the only column of float lists. Images go before embeddings, unless they are paths that do
    not exist below ``folder``.
    """
    if image_column is not None and vector_column is not None:
        raise DataError(
            f"{name} is read as images or as embeddings; give {option_name('image_column')} or "
            f"{option_name('vector_column')}, not both."
        )
    if vector_column is not None:
        return existing(table, name, vector_column), "features"
    if image_column is not None:
        return existing(table, name, image_column), "images"
    image, vectors = _obvious_image(table), _obvious_vectors(table, name, label_column)
    if image is None and vectors is None:
        raise DataError(
            f"{name} has the columns {listed_columns(table)}, none of which is obviously the image or the "
            f"embedding; name it with {option_name('image_column')} or {option_name('vector_column')}"
            f"{advice_on_numbers(table)}."
        )
    if image is None or (vectors is not None and _are_missing_files(table[image], folder)):
        assert vectors is not None  # one of the two is there
        return vectors, "features"
    if vectors is not None:
        warnings.warn(
            f"{name} has images (column {image!r}) and embeddings (column {vectors!r}); the images are taken, "
            f"--vector-column {vectors} (in Python vector_column) takes the embeddings.",
            stacklevel=2,
        )
    return image, "images"


def _obvious_image(table: pa.Table) -> str | None:
    features = hugging_face_features(table.schema)
    typed = [c for c, f in features.items() if isinstance(f, dict) and f.get("_type") == "Image"]
    typed = [c for c in typed if c in table.column_names]
    usual = [c for c in columns_called(table, IMAGE_COLUMNS) if not is_list(table[c].type)]
    return next(iter(typed + usual), None)


def _obvious_vectors(table: pa.Table, name: str, label_column: str | None) -> str | None:
    """Lists of floats may also be labels: those of label columns are, and lists of 0 and 1 with an unusual name."""
    labels = {*columns_called(table, LABEL_COLUMNS), *(part.strip() for part in (label_column or "").split(","))}
    lists = [c for c in table.column_names if c not in labels and holds_vectors(table[c])]
    usual = [c for c in columns_called(table, VECTOR_COLUMNS) if c in lists]
    others = [c for c in lists if c not in usual and not holds_flags(table[c])]
    if not usual and len(others) > 1:
        raise DataError(
            f"{name} has several columns of embeddings, {' and '.join(others)}; name one with "
            f"{option_name('vector_column')}."
        )
    return next(iter(usual + others), None)


def _are_missing_files(column: pa.ChunkedArray, folder: Path) -> bool:
    """Whether the cells are paths, and none of the first ones is there."""
    return is_text(column.type) and not any_file(column.slice(0, PROBED_PATHS).to_pylist(), folder)


def choose_label_columns(table: pa.Table, name: str, wanted: str | None, item_column: str, kind: str) -> list[str]:
    """The columns ``wanted`` ("a" or "a,b"), or the obvious one; an empty list where there are no labels."""
    if wanted is not None:
        if wanted in table.column_names:
            return [wanted]
        if wanted == NO_LABELS:
            return []
        return [existing(table, name, part.strip()) for part in wanted.split(",")]
    features = hugging_face_features(table.schema)
    typed = [c for c in table.column_names if class_names(features.get(c)) is not None]
    usual = [c for c in columns_called(table, LABEL_COLUMNS) if c != item_column]
    if usual:
        return usual[:1]
    if len(typed) == 1:
        return typed
    known = {
        item_column,
        choose_split_column(table, name),
        *columns_called(table, (*ID_COLUMNS, *IMAGE_COLUMNS, *VECTOR_COLUMNS)),
    }
    known |= {c for c in table.column_names if holds_vectors(table[c]) and not holds_flags(table[c])}
    if known.issuperset(table.column_names):
        return []
    problem = f"{name} has the columns {listed_columns(table)}, none of which is obviously the label"
    if kind == "features":  # embeddings are useful without labels, and tables often hold the text they were made from
        warnings.warn(f"{problem}, so no row has one; {option_name('label_column')} names it.", stacklevel=2)
        return []
    raise DataError(f"{problem}; name it with {option_name('label_column')} ('{NO_LABELS}' when there are no labels).")


def choose_id_column(table: pa.Table, name: str, wanted: str | None, taken: list[str], kind: str) -> str | None:
    """The column of the user's own ids: ``wanted``, or one with a usual name; for embeddings otherwise a column of
    paths. None if rows only have numbers.
    """
    if wanted is not None and wanted != NO_IDS:
        column = existing(table, name, wanted)
        if not _is_id(table[column].type):
            raise DataError(
                f"Column {column!r} of {name} must hold ids (text or whole numbers), not {table[column].type}."
            )
        return column
    usual = (*ID_COLUMNS, *(IMAGE_COLUMNS if kind == "features" else ()))
    found = [c for c in columns_called(table, usual) if c not in taken and _is_id(table[c].type)]
    return None if wanted == NO_IDS else next(iter(found), None)


def read_labels(
    table: pa.Table,
    name: str,
    columns: list[str],
    separator: str = AUTO,
    read_numbers: bool = False,
    decides: np.ndarray | None = None,
) -> Encoded:
    """The labels of the chosen columns, in one of the two forms of :mod:`scdh.data.labels`.

    Args:
        table: has the columns.
        name: how messages call it.
        columns: names of columns.
        separator: of several labels in a cell of text, as :func:`parse_label_cells` takes it.
        read_numbers: whether text such as "12" stands for a number.
        decides: bool [n], the rows that decide whether commas separate labels (no queries); None: all.
    """
    if not columns:
        return no_labels(table.num_rows), []
    features = hugging_face_features(table.schema)
    encoded = {}
    for column in columns:
        values = table[column]
        names = class_names(features.get(column))
        what = f"column {column!r} of {name}"
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        is_split = is_text(kind) and names is None
        if separator != AUTO and not is_split:
            raise DataError(f"{option_name('label_separator')} is for labels in text, but {what} holds {kind}.")
        if is_split:
            labels, are_lists = parse_label_cells(
                values.to_pylist(), separator, what=what, read_numbers=read_numbers, decides=decides
            )
            encoded[column] = (encode_lists if are_lists else encode_single)(labels, what=what)
        elif is_list(kind):
            encoded[column] = encode_lists(values.to_pylist(), names, what=what)
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            # As Python's numbers: those of 64 bits without a sign do not fit into Arrow's signed ones.
            whole = [None if value is None else int(value) for value in values.to_pylist()]
            encoded[column] = encode_single(whole, names, what=what)
        elif pa.types.is_floating(kind) and (numbers := _whole_numbers(values.to_pylist())) is not None:
            encoded[column] = encode_single(numbers, names, what=what)
        elif is_text(kind) or pa.types.is_null(kind):
            encoded[column] = encode_single(values.to_pylist(), names, what=what)
        else:
            raise DataError(f"{what} must hold whole numbers, names or lists of them, not {kind}.")
    return next(iter(encoded.values())) if len(columns) == 1 else encode_columns(encoded)


def _whole_numbers(values: list[float | None]) -> list[int | None] | None:
    """The integers that pandas writes as floats when some are missing (NaN → None); None if one is a fraction."""
    known = [None if value is None or value != value else value for value in values]
    if any(value is not None and not value.is_integer() for value in known):
        return None
    return [None if value is None else int(value) for value in known]


def _is_id(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_integer(kind)
