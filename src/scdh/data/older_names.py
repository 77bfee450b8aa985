"""Names and labels of rows as earlier versions wrote them: a JSON file beside a codes or index file."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from scdh.errors import CodesError, DataError
from scdh.files import read_regular

FORMAT = "scdh items 1"


def read_older_names(file: Path) -> tuple[np.ndarray, list[str], np.ndarray, list[str]] | None:
    """Ids, names, labels and label names, as :class:`scdh.data.RowNames` takes them; None if there is no such file."""
    try:
        content = json.loads(read_regular(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CodesError(f"{file} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CodesError(f"{file} cannot be read as JSON: {error}.") from None
    try:
        if content["format"] != FORMAT:
            raise CodesError(f"{file} names the format {content['format']!r}, but {FORMAT!r} was expected.")
        ids, labels = np.array(content["ids"], np.int64), _parse_labels(content)
        names, label_names = list(content["names"]), list(content["label_names"])
        if not all(isinstance(text, str) for text in (*names, *label_names)):
            raise DataError("a name is not text")
    except (LookupError, TypeError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, CodesError):
            raise
        raise CodesError(f"{file} is not a whole file of item names: {error!r}.") from None
    if ids.ndim != 1 or not len(ids) == len(names) == len(labels):
        raise CodesError(f"{file} is not a whole file of item names: its columns have different lengths.")
    return ids, names, labels, label_names


def _parse_labels(content: dict[str, Any]) -> np.ndarray:
    count = len(content["label_names"])
    if not content["multi_label"]:
        labels = np.array(content["labels"], np.int64)
        if len(labels) and not -1 <= labels.min() <= labels.max() < count:
            raise DataError(f"a label is outside 0 to {count - 1}")
        return labels
    hot = np.zeros((len(content["labels"]), count), np.uint8)
    for row, labels in enumerate(content["labels"]):
        if labels and not 0 <= min(labels) <= max(labels) < count:
            raise DataError(f"a label is outside 0 to {count - 1}")
        hot[row, labels] = 1
    return hot
