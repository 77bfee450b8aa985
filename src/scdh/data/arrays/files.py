"""Embeddings in files: ``.npz`` with vectors and labels, or ``.npy`` with another ``.npy`` for the labels."""

from pathlib import Path

import numpy as np

from scdh.data.arrays.memory import ArraySource
from scdh.data.labels import as_text
from scdh.data.regular_files import refuse_unreadable
from scdh.data.split_words import split_column
from scdh.errors import DataError

VECTORS = ("X", "features", "embeddings")
IDS = ("ids", "names")
LABELS = ("y", "labels", "label")
LABEL_NAMES = ("label_names",)


def open_embeddings(path: Path, labels: Path | None = None) -> ArraySource:
    """Open a file of embeddings.

    Args:
        path: ``.npy`` with an array [n, d], or ``.npz`` with the arrays ``X`` [n, d] and optionally ``y`` (labels),
            ``label_names``, ``split`` [n] and ``ids`` [n] (what rows are called), in any capitals.
        labels: ``.npy`` file with one label [n] or a 0/1 row [n, C] for each vector.
    """
    if path.suffix.lower() == ".npy":
        vectors, y, names, split, ids = _read(path), None, None, None, None
    else:
        vectors, y, names, split, ids = _read_npz(path)
    if labels is not None:
        if y is not None:
            raise DataError(f"{path.name} has labels already, so {labels.name} cannot be given too.")
        y = _read(labels)
    if split is not None and split.ndim != 1:
        raise DataError(f"{path.name}: the array split must hold one word a row, not the shape {list(split.shape)}.")
    source = ArraySource(vectors, y, names, name=path.name, split=split, item_names=ids)
    source.split_origin = f"array split of {path.name}"
    return source


def _read(path: Path) -> np.ndarray:
    refuse_unreadable(path)
    try:
        # Memory-mapped, so that rows of a large float32 file are read when they are needed.
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:  # damaged headers make numpy raise nearly anything, errors of Python's parser included
        raise DataError(f"{path} is not a plain .npy array: {_first_line(error)}.") from error


def _read_npz(
    path: Path,
) -> tuple[np.ndarray, np.ndarray | None, list[str] | None, np.ndarray | None, list[str] | None]:
    """Vectors, labels, names of the labels, split, and names of the rows."""
    refuse_unreadable(path)
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds one array, as .npy files do; call it so.")
        with archive:
            key = _first_of(VECTORS, archive.files)
            if key is None:
                raise DataError(
                    f"{path.name} holds the arrays {', '.join(archive.files) or 'none'}; "
                    f"expected the vectors under one of {', '.join(VECTORS)}."
                )
            label_key = _first_of(LABELS, archive.files)
            name_key = _first_of(LABEL_NAMES, archive.files)
            names = None if name_key is None else _ids(archive[name_key], name_key, path.name)
            split_key = split_column(archive.files)
            labels, split = (None if k is None else archive[k] for k in (label_key, split_key))
            id_key = _first_of(IDS, archive.files)
            ids = None if id_key is None else _ids(archive[id_key], id_key, path.name)
            return archive[key], labels, names, split, ids
    except (DataError, MemoryError):
        raise
    except Exception as error:  # as above, and errors of the archive and its compression
        raise DataError(f"{path} is not a plain .npz archive: {_first_line(error)}.") from error


def _ids(values: np.ndarray, key: str, name: str) -> list[str]:
    """What rows are called, as text."""
    if values.ndim != 1 or values.dtype.kind not in "iuUS":
        raise DataError(
            f"{name}: {key} must be a list of texts or whole numbers, not {values.dtype} of shape {list(values.shape)}."
        )
    return as_text(values).tolist()


def _first_of(keys: tuple[str, ...], available: list[str]) -> str | None:
    """The first array of these names; an exact one goes before one with other capitals."""
    in_small = {name.lower(): name for name in reversed(available)}
    exact = next((key for key in keys if key in available), None)
    return exact or next((in_small[key.lower()] for key in keys if key.lower() in in_small), None)


def _first_line(error: Exception) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return "it is of another kind, or holds Python objects" if "pickle" in text else text  # numpy offers to load them
