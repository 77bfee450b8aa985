"""Read columns of embeddings (lists of numbers of one length, or one number per column) as one float32 array."""

from collections import Counter
from fnmatch import fnmatchcase

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scdh.data.tables.column_names import listed_columns
from scdh.errors import DataError

PROBED_ROWS = 100
LEAST_NUMBERED = 3  # columns whose names differ in a number only


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def holds_vectors(column: pa.ChunkedArray) -> bool:
    """Whether the cells are lists of floats."""
    return is_list(column.type) and pa.types.is_floating(column.type.value_type)


def holds_flags(column: pa.ChunkedArray) -> bool:
    """Whether the first lists hold 0 and 1 only, as rows of a multi-hot matrix do."""
    values = pc.list_flatten(column.slice(0, PROBED_ROWS)).drop_null()
    return bool(np.isin(values.to_numpy(), (0, 1)).all())


def read_vectors(column: pa.ChunkedArray, what: str) -> np.ndarray:
    """float32 [n, d] of a column of lists; no cell becomes a Python list.

    Raises:
        DataError: cells are not lists of numbers, one is empty or missing a value, or their lengths differ.
    """
    kind = column.type
    if not is_list(kind) or not (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)):
        raise DataError(f"{what} must hold lists of numbers, one vector per row, not {kind}.")
    row = pc.index(pc.is_null(column), True).as_py()
    if row >= 0:
        raise DataError(f"{what} holds no vector in row {row}; every row needs one.")
    lengths = pc.list_value_length(column)
    width = lengths[0].as_py()
    row = pc.index(pc.not_equal(lengths, width), True).as_py()
    if row >= 0:
        raise DataError(
            f"{what} holds vectors of different lengths: {width} numbers in row 0, {lengths[row]} in row {row}."
        )
    if not width:
        raise DataError(f"{what} holds empty lists, where vectors were expected.")
    parts, start = [], 0
    for chunk in column.chunks:
        values = chunk.flatten()
        if values.null_count:
            row = start + pc.index(values.is_null(), True).as_py() // width
            raise DataError(f"{what} has a number missing in row {row}.")
        parts.append(values.to_numpy(zero_copy_only=False).reshape(len(chunk), width))
        start += len(chunk)
    if len(parts) == 1 and parts[0].dtype == np.float32:
        return parts[0]  # Arrow's own memory
    features = np.empty((start, width), np.float32)
    with np.errstate(over="ignore"):  # infinity is rejected with its row, as in every other source
        np.concatenate(parts, out=features, casting="same_kind")
    return features


def gather_columns(table: pa.Table, pattern: str, name: str) -> pa.Table:
    """One column of vectors, called ``pattern``, in place of columns of one number each."""
    columns = [column for column in table.column_names if fnmatchcase(column, pattern)]
    if not columns:
        raise DataError(f"{name} has no column {pattern!r}; its columns are {listed_columns(table)}.")
    features = np.empty((table.num_rows, len(columns)), np.float32)
    for position, column in enumerate(columns):
        try:
            features[:, position] = table[column].cast(pa.float32()).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"Column {column!r} of {name}, which {pattern!r} names, must hold a number in every row."
            ) from None
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), len(columns))
    return table.drop_columns(columns).append_column(pattern, vectors)


def advice_on_numbers(table: pa.Table) -> str:
    """The end of an error message if every number of an embedding has its own column, such as f0, f1, f2."""
    stems = Counter(column.rstrip("0123456789") for column in table.column_names if column[-1:].isdigit())
    stem, count = max(stems.items(), key=lambda item: item[1], default=("", 0))
    if count < LEAST_NUMBERED:
        numbers = sum(map(_begins_with_numbers, table.columns))
        if numbers < 2:
            return ""
        return (
            f"; if its {numbers} columns of numbers together are the embedding, numpy.savez(file, X=frame[columns], "
            "y=frame[label].to_numpy(str)) writes a file for --data, and scdh.train(frame[columns], "
            "labels=frame[label]) takes them"
        )
    return f'; if every number of an embedding has its own column, --vector-column "{stem or "[0-9]"}*" joins them'


def _begins_with_numbers(column: pa.ChunkedArray) -> bool:
    """Whether the first cells are fractions, also as text, as CSV files have them; classes are rather whole numbers."""
    try:
        first = column.slice(0, 50).drop_null().cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return any(value % 1 for value in first.to_pylist())


def vectors_of_text(cells: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """Cells such as "[0.5, -1]" or "0.5 -1", as CSV files have them → lists of numbers; an empty cell becomes null."""
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(cells, r"[\[\](),\s]+", " "))
    plain = pc.if_else(pc.equal(plain, ""), None, plain)
    try:
        return pc.split_pattern(plain, " ").cast(pa.list_(pa.float32()))
    except pa.ArrowInvalid:
        row = next((row for row, text in enumerate(plain.to_pylist()) if not _are_numbers(text)), 0)
        raise DataError(f"{what} holds no list of numbers in row {row}: {str(cells[row])[:60]!r}.") from None


def _are_numbers(text: str | None) -> bool:
    try:  # by Arrow, which rejects some numbers that Python accepts, such as 1_0
        pa.array((text or "").split(" ")).cast(pa.float32()) if text else None
    except pa.ArrowInvalid:
        return False
    return True
