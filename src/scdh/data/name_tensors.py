"""Conversion between names and labels of rows and the arrays of a codes file or names file.

| array                             | content                                                                         |
|-----------------------------------|---------------------------------------------------------------------------------|
| ``names``, ``name_ends``          | bytes of all names, and the end offset of each of the n names                   |
| ``label_names``, ``label_name_ends`` | the same for the C label names                                               |
| ``labels``                        | int64 [n], −1 for no label; multi-label files have the next two arrays instead  |
| ``label_numbers``, ``label_ends`` | labels of all rows, and the end offset of each row                              |
"""

import numpy as np

from scdh.data.packed_texts import PackedTexts
from scdh.data.row_names import RowNames
from scdh.errors import CodesError, DataError
from scdh.storage.tensor_files import StoredTensors


def name_tensors(row_names: RowNames) -> dict[str, np.ndarray]:
    """Return the arrays of names and labels, without ids."""
    names, label_names = PackedTexts.of(row_names.names), PackedTexts.of(row_names.label_names)
    tensors = {
        "names": names.data,
        "name_ends": names.ends,
        "label_names": label_names.data,
        "label_name_ends": label_names.ends,
    }
    if row_names.labels.ndim == 1:
        return {**tensors, "labels": row_names.labels.astype(np.int64, copy=False)}
    hot = row_names.labels != 0
    ends = np.cumsum(np.count_nonzero(hot, axis=1), dtype=np.int64)
    return {**tensors, "label_numbers": np.nonzero(hot)[1].astype(np.int64, copy=False), "label_ends": ends}


def has_names(stored: StoredTensors) -> bool:
    """Return whether a codes file contains names."""
    return "names" in stored


def read_name_tensors(stored: StoredTensors, ids: np.ndarray) -> RowNames:
    """Read the names and labels of the rows with the given ``ids``, int64 [n]."""
    # Errors of ``stored`` already name the file, so the arrays are read outside the try block.
    label_keys = ("label_numbers", "label_ends") if "label_numbers" in stored else ("labels",)
    arrays = {key: stored.read(key) for key in ("names", "name_ends", "label_names", "label_name_ends", *label_keys)}
    try:
        names = PackedTexts(arrays["names"], arrays["name_ends"])
        label_names = list(PackedTexts(arrays["label_names"], arrays["label_name_ends"]))
        count = len(label_names)
        if "labels" in arrays:
            labels = _checked(arrays["labels"], count)
        else:
            labels = _multi_hot(arrays["label_numbers"], arrays["label_ends"], count)
        if ids.ndim != 1 or not len(ids) == len(names) == len(labels):
            raise DataError(f"{len(ids)} ids, {len(names)} names and {len(labels)} labels differ in length")
    except (DataError, CodesError, MemoryError) as error:
        raise CodesError(f"{stored.path} is damaged: its names are invalid ({str(error).rstrip('.')}).") from None
    return RowNames(ids, names, labels, label_names)


def _checked(labels: np.ndarray, count: int, least: int = -1) -> np.ndarray:
    if labels.dtype != np.int64 or labels.ndim != 1:
        raise DataError("labels are not a one-dimensional array of integers")
    if len(labels) and not least <= labels.min() <= labels.max() < count:
        raise DataError(f"a label is out of range 0 to {count - 1}")
    return labels


def _multi_hot(numbers: np.ndarray, ends: np.ndarray, count: int) -> np.ndarray:
    numbers = _checked(numbers, count, least=0)
    sizes = np.diff(ends, prepend=0)
    if ends.dtype != np.int64 or ends.ndim != 1 or (sizes < 0).any() or sizes.sum() != len(numbers):
        raise DataError("the labels of rows overlap")
    hot = np.zeros((len(ends), count), np.uint8)
    hot[np.repeat(np.arange(len(ends)), sizes), numbers] = 1
    return hot
