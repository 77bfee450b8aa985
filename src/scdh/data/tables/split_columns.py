"""Find the column of a table that holds its split, and read the parts of its rows."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scdh.data.split_words import MOST_WORDS, marks_parts, note_on_flags, part_names, split_column
from scdh.data.tables.column_names import (
    ID_COLUMNS,
    LABEL_COLUMNS,
    class_names,
    columns_called,
    existing,
    hugging_face_features,
    is_text,
)
from scdh.errors import DataError, option_name

PROBED_ROWS = 10_000


def choose_split_column(
    table: pa.Table, name: str, wanted: str | None = None, taken: Collection[str] = ()
) -> str | None:
    """The column ``wanted``, or one called split, or the one whose words tell that it is a split."""
    if wanted is not None:
        return existing(table, name, wanted)
    column = split_column(table.column_names)
    if column is not None:
        return column
    texts = [c for c in _free(table, taken) if is_text(table[c].type)]
    found = [c for c in texts if marks_parts(c, _words(table[c]))]
    if len(found) > 1:
        raise DataError(
            f"{name} has several columns that may be the split, {' and '.join(found)}; name one with "
            f"{option_name('split_column')}."
        )
    return found[0] if found else None


def note_on_columns(table: pa.Table, taken: Collection[str]) -> str:
    """A sentence if a column of a table without a split may have been meant as one (``is_test``)."""
    plain = [c for c in _free(table, taken) if is_text(table[c].type) or _is_flag(table[c].type)]
    return next(filter(None, (note_on_flags(c, _words(table[c])) for c in plain)), "")


def read_split(table: pa.Table, name: str, column: str) -> np.ndarray:
    """The table's own split, str [n], with the usual names of parts."""
    kind, names = table[column].type, class_names(hugging_face_features(table.schema).get(column))
    if not (is_text(kind) or _is_flag(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise DataError(f"{name}: the split column {column!r} must hold words such as train and test, not {kind}.")
    words = table[column].to_pylist()
    if names is not None:
        words = [names[word] if isinstance(word, int) and 0 <= word < len(names) else word for word in words]
    return part_names(words)


def _free(table: pa.Table, taken: Collection[str]) -> list[str]:
    known = {*taken, *columns_called(table, (*LABEL_COLUMNS, *ID_COLUMNS))}
    return [c for c in table.column_names if c not in known]


def _words(column: pa.ChunkedArray) -> list[object]:
    """The different words of a column; only some if there are very many, as the column is not a split."""
    some = pc.unique(column.slice(0, PROBED_ROWS)).to_pylist()
    return some if len(some) > MOST_WORDS else pc.unique(column).to_pylist()


def _is_flag(kind: pa.DataType) -> bool:
    return pa.types.is_boolean(kind) or pa.types.is_integer(kind)
