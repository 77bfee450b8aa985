"""Names and labels of rows ↔ the arrays that a codes file or a file of names holds.

| array                             | what                                                                            |
|-----------------------------------|---------------------------------------------------------------------------------|
| ``names``, ``name_ends``          | the bytes of all names, and where each of the n names ends                      |
| ``label_names``, ``label_name_ends`` | the same of the C label names                                                |
| ``labels``                        | int64 [n], −1 for no label; where rows may have several labels, instead of it:  |
| ``label_numbers``, ``label_ends`` | the labels of all rows, and where those of each row end                         |
"""

import numpy as np

from scdh.data.packed_texts import PackedTexts
from scdh.data.row_names import RowNames
from scdh.errors import CodesError, DataError
from scdh.tensor_files import StoredTensors


def name_tensors(row_names: RowNames) -> dict[str, np.ndarray]:
    """The arrays of names and labels, without ids."""
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
    """Whether a codes file holds names."""
    return "names" in stored


def read_name_tensors(stored: StoredTensors, ids: np.ndarray) -> RowNames:
    """Names and labels of the rows with these ``ids``, int64 [n]."""
    try:
        names = PackedTexts(stored.read("names"), stored.read("name_ends"))
        label_names = list(PackedTexts(stored.read("label_names"), stored.read("label_name_ends")))
        is_multi = "label_numbers" in stored
        labels = _multi_hot(stored, len(label_names)) if is_multi else _checked(stored.read("labels"), len(label_names))
        if ids.ndim != 1 or not len(ids) == len(names) == len(labels):
            raise DataError(f"{len(ids)} ids, {len(names)} names and {len(labels)} labels do not fit together")
    except (DataError, CodesError, MemoryError) as error:
        if str(error).startswith(str(stored.path)):
            raise
        raise CodesError(f"{stored.path} is damaged: its names make no sense ({str(error).rstrip('.')}).") from None
    return RowNames(ids, names, labels, label_names)


def _checked(labels: np.ndarray, count: int, least: int = -1) -> np.ndarray:
    if labels.dtype != np.int64 or labels.ndim != 1:
        raise DataError("labels are not a row of whole numbers")
    if len(labels) and not least <= labels.min() <= labels.max() < count:
        raise DataError(f"a label is outside 0 to {count - 1}")
    return labels


def _multi_hot(stored: StoredTensors, count: int) -> np.ndarray:
    numbers, ends = _checked(stored.read("label_numbers"), count, least=0), stored.read("label_ends")
    sizes = np.diff(ends, prepend=0)
    if ends.dtype != np.int64 or ends.ndim != 1 or (sizes < 0).any() or sizes.sum() != len(numbers):
        raise DataError("the labels of rows overlap")
    hot = np.zeros((len(ends), count), np.uint8)
    hot[np.repeat(np.arange(len(ends)), sizes), numbers] = 1
    return hot
