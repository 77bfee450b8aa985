"""Embeddings in files: ``.npz`` with vectors and labels, or ``.npy`` with another ``.npy`` for the labels."""

from pathlib import Path

import numpy as np

from scdh.data.arrays.archive import Archive, read_archive
from scdh.data.arrays.memory import ArraySource
from scdh.data.regular_files import check_readable
from scdh.errors import DataError

_LONGEST_REASON = 200  # numpy quotes the whole header of a damaged file
LABEL_ADVICE = "give labels with --labels labels.npy, or name an array of an .npz file with --label-column"


def open_embeddings(path: Path, labels: Path | None = None, **arrays: str) -> ArraySource:
    """Open a file of embeddings.

    Args:
        path: ``.npy`` with an array [n, d], or ``.npz`` with the arrays ``X`` [n, d] and optionally ``y`` (labels),
            ``label_names``, ``split`` [n] and ``ids`` [n] (what rows are called), in any capitals; or with ``x_train``,
            ``y_train``, ``x_test`` and so on.
        labels: ``.npy`` file with one label [n] or a 0/1 row [n, C] for each vector.
        arrays: ``vector_column``, ``label_column``, ``id_column`` and ``split_column``, if these arrays of an ``.npz``
            file have other names.
    """
    if path.suffix.lower() == ".npy":
        found = Archive(read_npy(path), None, None, None, "", None)
    else:
        found = _read_npz(path, arrays)
    y = found.labels
    if labels is not None:
        if y is not None:
            raise DataError(f"{path.name} has labels already, so {labels.name} cannot be given too.")
        y = read_npy(labels)
    source = ArraySource(found.vectors, y, found.label_names, name=path.name, split=found.split, item_names=found.ids)
    source.split_origin, source.label_advice = found.split_origin, LABEL_ADVICE
    return source


# Most such files hold text from pandas, which numpy saves by pickle.
_OF_OBJECTS = "; text and numbers are saved as plain arrays, such as frame[column].to_numpy(str) of a pandas frame"


def read_npy(path: Path) -> np.ndarray:
    """The array of a ``.npy`` file, memory-mapped.

    Raises:
        DataError: if it is not a plain array.
    """
    check_readable(path)
    try:
        # Rows of a large float32 file are read when needed, and a forged shape takes no memory.
        with np.errstate(over="ignore"):  # numpy notices a size that is too large later
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:  # damaged headers make numpy raise nearly any error, including those of Python's parser
        raise DataError(f"{path} is not a plain .npy array: {_first_line(error)}{_OF_OBJECTS}.") from error


def _read_npz(path: Path, arrays: dict[str, str]) -> Archive:
    check_readable(path)
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds one array, as .npy files do; rename it to end in .npy.")
        with archive:
            return read_archive(archive, path.name, **arrays)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # as above, and errors of the archive and its compression
        raise DataError(f"{path} is not a plain .npz archive: {_first_line(error)}{_OF_OBJECTS}.") from error


def _first_line(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"
