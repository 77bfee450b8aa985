"""Which column of a table holds the image, the label and the split, and what its values mean.

Hugging Face writes the meaning of columns into the table's metadata (ClassLabel with its names); plain tables
are read by their Arrow types.
"""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scdh.data.labels import Encoded, encode_columns, encode_lists, encode_single
from scdh.data.split_words import OTHER_COLUMNS, UNMARKED, is_part, part_name, part_names, split_column
from scdh.errors import DataError
from scdh.label_arrays import no_labels

IMAGE_COLUMNS = ("image", "img", "image_data", "path", "file", "file_name", "image_path")
LABEL_COLUMNS = ("label", "labels", "class", "target")
NO_LABELS = "none"


def hugging_face_features(schema: pa.Schema) -> dict[str, Any]:
    """The "features" part of Hugging Face's metadata; empty where there is none."""
    try:
        info = json.loads((schema.metadata or {})[b"huggingface"])
        features = info["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def class_names(feature: Any) -> list[str] | None:
    """The names of a ClassLabel, alone or inside a list, in any of the spellings that `datasets` has used."""
    while isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") == "ClassLabel" and feature.get("names"):
        return [str(name) for name in feature["names"]]
    return class_names(feature["feature"]) if "feature" in feature else None


def choose_image_column(table: pa.Table, name: str, wanted: str | None) -> str:
    """The column ``wanted``, or the obvious one: a Hugging Face image, or one with a usual name."""
    if wanted is not None:
        return _existing(table, name, wanted)
    features = hugging_face_features(table.schema)
    typed = [c for c, f in features.items() if isinstance(f, dict) and f.get("_type") == "Image"]
    usual = [c for c in IMAGE_COLUMNS if c in table.column_names]
    for candidates in (typed, usual):
        if candidates:
            return candidates[0]
    raise DataError(
        f"{name} has the columns {', '.join(table.column_names)}, none of which is obviously the image; "
        "name it with image_column."
    )


def choose_label_columns(table: pa.Table, name: str, wanted: str | None, image_column: str) -> list[str]:
    """The columns ``wanted`` ("a" or "a,b"), or the obvious one; an empty list where there are no labels."""
    if wanted is not None:
        if wanted in table.column_names:
            return [wanted]
        if wanted == NO_LABELS:
            return []
        return [_existing(table, name, part.strip()) for part in wanted.split(",")]
    features = hugging_face_features(table.schema)
    typed = [c for c in table.column_names if class_names(features.get(c)) is not None]
    usual = [c for c in LABEL_COLUMNS if c in table.column_names]
    if usual:
        return usual[:1]
    if len(typed) == 1:
        return typed
    others = [c for c in table.column_names if c not in (image_column, choose_split_column(table, name))]
    if not others:
        return []
    raise DataError(
        f"{name} has the columns {', '.join(table.column_names)}, none of which is obviously the label; "
        f"name it with label_column ('{NO_LABELS}' when there are no labels)."
    )


def read_labels(table: pa.Table, name: str, columns: list[str]) -> Encoded:
    """The labels of the chosen columns, in one of the two forms of :mod:`scdh.data.labels`."""
    if not columns:
        return no_labels(table.num_rows), []
    features = hugging_face_features(table.schema)
    encoded = {}
    for column in columns:
        values = table[column]
        names = class_names(features.get(column))
        what = f"column {column!r} of {name}"
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            encoded[column] = encode_lists(values.to_pylist(), names, what=what)
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            encoded[column] = encode_single(values.cast(pa.int64()).to_pylist(), names, what=what)
        elif pa.types.is_floating(kind) and (numbers := _whole_numbers(values.to_pylist())) is not None:
            encoded[column] = encode_single(numbers, names, what=what)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
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


def choose_split_column(table: pa.Table, name: str, wanted: str | None = None) -> str | None:
    """The column ``wanted``, or one called split, or one with a similar name that holds nothing but names of parts."""
    if wanted is not None:
        return _existing(table, name, wanted)
    column = split_column(table.column_names)
    if column is not None:
        return column
    for candidate in table.column_names:
        if candidate.strip().lower() in OTHER_COLUMNS and _is_text(table[candidate].type):
            words = set(pc.unique(table[candidate]).to_pylist())
            if {part_name(word) for word in words} - {UNMARKED} and all(is_part(w) or not part_name(w) for w in words):
                return candidate
    return None


def read_split(table: pa.Table, name: str, column: str) -> np.ndarray:
    """The table's own split, str [n], with the usual names of parts."""
    kind, names = table[column].type, class_names(hugging_face_features(table.schema).get(column))
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise DataError(f"{name}: the split column {column!r} must hold words such as train and test, not {kind}.")
    words = table[column].to_pylist()
    if names is not None:
        words = [names[word] if isinstance(word, int) and 0 <= word < len(names) else word for word in words]
    return part_names(words)


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _existing(table: pa.Table, name: str, column: str) -> str:
    if column not in table.column_names:
        raise DataError(f"{name} has no column {column!r}; its columns are {', '.join(table.column_names)}.")
    return column
