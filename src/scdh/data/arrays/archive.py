"""Recognise the arrays of an ``.npz`` file: vectors, labels, split, ids; or vectors and labels of each part.

Names are recognised in any capitals; a split also by its words, as in a table.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scdh.data.labels import as_text
from scdh.data.split_words import marks_parts, part_name, part_names, part_of_name, split_column
from scdh.errors import DataError, option_of
from scdh.label_arrays import NO_LABEL

VECTORS = ("X", "features", "embeddings", "vectors", "images", "data")
LABELS = ("y", "labels", "label", "target", "targets", "classes")
LABEL_NAMES = ("label_names",)
IDS = ("ids", "names")


@dataclass(frozen=True)
class Archive:
    """The arrays of a file by purpose; None for those that are missing."""

    vectors: np.ndarray
    labels: np.ndarray | None
    label_names: list[str] | None
    split: np.ndarray | None
    split_origin: str
    ids: list[str] | None


def read_archive(arrays: Mapping[str, np.ndarray], name: str, **wanted: str) -> Archive:
    """The arrays by purpose; ``wanted``, such as ``label_column="kind"``, names those with other names than usual."""
    names = list(arrays)
    if {"format", "shape", "data"} <= set(names):
        raise DataError(
            f"{name} contains a sparse matrix of scipy; reduce it to dense vectors, for example by TruncatedSVD of "
            "scikit-learn, and save them by numpy.savez(file, X=vectors, y=labels)."
        )
    for option, array in wanted.items():
        if array not in arrays and (array != "none" or option not in ("label_column", "id_column")):
            raise DataError(f"{name} has no array {array!r} ({option_of(option)}); its arrays are {', '.join(arrays)}.")
    key = _chosen(wanted, "vector_column", VECTORS, names)
    if key is None:
        if wanted:
            option = option_of(next(iter(wanted)))
            raise DataError(f"{name} holds arrays of parts, such as x_train, and cannot use {option}.")
        return _joined_parts(arrays, name)
    vectors = arrays[key]
    label_key = _chosen(wanted, "label_column", LABELS, names)
    id_key = _chosen(wanted, "id_column", IDS, names)
    label_name_key = _first_of(LABEL_NAMES, names)
    taken = {key, label_key, id_key, label_name_key}
    free = [n for n in names if n not in taken]
    split_key = wanted.get("split_column") or _split_key(arrays, free, len(vectors))
    return Archive(
        vectors,
        None if label_key is None else arrays[label_key],
        None if label_name_key is None else _texts(arrays[label_name_key], label_name_key, name),
        None if split_key is None else _words(arrays[split_key], split_key, name),
        f"array {split_key} of {name}",
        None if id_key is None else _texts(arrays[id_key], id_key, name),
    )


def _chosen(wanted: Mapping[str, str], option: str, usual: tuple[str, ...], names: list[str]) -> str | None:
    key = wanted.get(option) or _first_of(usual, names)
    return None if key == "none" else key


def _split_key(arrays: Mapping[str, np.ndarray], free: list[str], rows: int) -> str | None:
    found = split_column(free)
    if found is not None:
        return found
    return next((key for key in free if marks_parts(key, _different_words(arrays, key, rows))), None)


def _different_words(arrays: Mapping[str, np.ndarray], key: str, rows: int) -> list[object]:
    """The distinct words of an array with one text per row; none for other arrays and those that cannot be read."""
    try:
        values = arrays[key]
    except Exception:  # an array that is not needed may hold Python objects
        return []
    return np.unique(values).tolist() if values.dtype.kind in "US" and values.shape == (rows,) else []


def _words(values: np.ndarray, key: str, name: str) -> np.ndarray:
    if values.ndim != 1:
        raise DataError(f"{name}: the array {key} must hold one word per row, not the shape {list(values.shape)}.")
    return part_names(values.tolist())


def _joined_parts(arrays: Mapping[str, np.ndarray], name: str) -> Archive:
    """Arrays of each part on their own (``x_train``, ``y_train``, ``x_test`` …), one part after the other."""
    vectors, labels = _by_part(arrays, VECTORS), _by_part(arrays, LABELS)
    if not vectors:
        raise DataError(
            f"{name} holds the arrays {', '.join(arrays) or 'none'}; expected the vectors under one of "
            f"{', '.join(VECTORS)}, or x_train, y_train, x_test and so on."
        )
    shapes = {arrays[key].shape[1:] for key in vectors.values()}
    if len(shapes) > 1 or any(arrays[key].ndim == 0 for key in vectors.values()):
        raise DataError(f"{name}: {' and '.join(vectors.values())} differ in width: {sorted(map(list, shapes))}.")
    counts = [len(arrays[key]) for key in vectors.values()]
    joined = None
    if labels:
        parts = [_labels_of_part(arrays, labels, part, rows, name) for part, rows in zip(vectors, counts, strict=True)]
        joined = np.concatenate(parts)
    return Archive(
        np.concatenate([arrays[key] for key in vectors.values()]),
        joined,
        None,
        np.repeat(list(vectors), counts) if len(vectors) > 1 else None,
        f"arrays {', '.join(vectors.values())} of {name}",
        None,
    )


def _by_part(arrays: Iterable[str], purposes: tuple[str, ...]) -> dict[str, str]:
    """By part, the names of arrays that consist of a part and one of ``purposes``, in either order."""
    found = {}
    for key in arrays:
        words = [word for word in re.split(r"[^A-Za-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", key)) if word]
        part = part_of_name(key)
        others = [word.lower() for word in words if part_name(word) != part]
        if part is not None and others and "_".join(others) in map(str.lower, purposes):
            found[part] = key
    return found


def _labels_of_part(
    arrays: Mapping[str, np.ndarray], labels: dict[str, str], part: str, rows: int, name: str
) -> np.ndarray:
    """The labels of a part; a part without any has rows without a label."""
    if part not in labels:
        like = arrays[next(iter(labels.values()))]
        shape = (rows, *like.shape[1:])
        return np.full(shape, "" if like.dtype.kind in "US" else 0 if like.ndim == 2 else NO_LABEL, like.dtype)
    values = arrays[labels[part]]
    if len(values) != rows:
        raise DataError(f"{name} has {rows} rows of {part} but {len(values)} labels in {labels[part]}.")
    return values


def _texts(values: np.ndarray, key: str, name: str) -> list[str]:
    """The names of rows or labels, as text."""
    if values.ndim != 1 or values.dtype.kind not in "iuUS":
        raise DataError(
            f"{name}: {key} must be a list of texts or whole numbers, not {values.dtype} of shape {list(values.shape)}."
        )
    return as_text(values).tolist()


def _first_of(keys: tuple[str, ...], available: list[str]) -> str | None:
    """The first array with one of these names; an exact match goes before one in other capitals."""
    in_small = {name.lower(): name for name in reversed(available)}
    exact = next((key for key in keys if key in available), None)
    return exact or next((in_small[key.lower()] for key in keys if key.lower() in in_small), None)
