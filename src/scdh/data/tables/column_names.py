"""Names of columns: usual ones for each purpose, in any capitals, and those of classes.

Hugging Face writes the meaning of columns into the table's metadata (ClassLabel with its names); plain tables are read
by their Arrow types.
"""

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from scdh.errors import DataError

MOST_LISTED = 20  # in a message
# If a table has several, the first one here is used.
IMAGE_COLUMNS = (
    *("image", "img", "image_data", "path", "file", "file_name", "filename"),
    *("image_path", "img_path", "file_path", "filepath", "image_file"),
)
VECTOR_COLUMNS = ("embedding", "embeddings", "vector", "vectors", "features", "feature", "emb", "x")
LABEL_COLUMNS = ("label", "labels", "class", "target", "class_name", "category", "tags", "tag", "y")
ID_COLUMNS = ("id", "item_id", "uid", "uuid", "key", "sku")


def hugging_face_features(schema: pa.Schema) -> dict[str, Any]:
    """The "features" part of Hugging Face's metadata; empty where there is none."""
    try:
        info = json.loads((schema.metadata or {})[b"huggingface"])
        features = info["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def class_names(feature: Any) -> list[str] | None:
    """The names of a ClassLabel, alone or inside a list, in any of the spellings that `datasets` has used."""
    while isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list) and feature["names"]:
        return [str(name) for name in feature["names"]]
    return class_names(feature["feature"]) if "feature" in feature else None


def columns_called(table: pa.Table, names: Iterable[str]) -> list[str]:
    """The table's columns with one of these names in any capitals, in the order of ``names``."""
    return [column for name in names for column in table.column_names if column.lower() == name]


def existing(table: pa.Table, name: str, column: str) -> str:
    """The column of this name, or the only one that has it in other capitals."""
    if column in table.column_names:
        return column
    similar = columns_called(table, (column.lower(),))
    if len(similar) != 1:
        raise DataError(f"{name} has no column {column!r}; its columns are {listed_columns(table)}.")
    return similar[0]


def is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def listed_columns(table: pa.Table) -> str:
    """The columns of a table, for messages."""
    names = table.column_names
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more
