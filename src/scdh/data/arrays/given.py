"""Data that a program passes in memory: arrays, or lists of images or vectors, with their labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scdh.data.arrays.loose import ItemsSource
from scdh.data.arrays.memory import ArraySource
from scdh.data.labels import Encoded, encode_array, encode_lists, holds_lists, plain_labels
from scdh.data.source import Source
from scdh.errors import DataError

IN_MEMORY = "(in memory)"  # ``data.source`` of a run on such data


def given_source(data: Any, labels: Any = None) -> Source:
    """Data in memory as a source.

    Args:
        data: a source; an array of embeddings or images as for :class:`ArraySource`; or a list of images or vectors as
            for :class:`ItemsSource`.
        labels: a number or a name per item, 0/1 [n, C], or a list of labels per item; −1, None or "" means no label.
    """
    if isinstance(data, Source):
        if labels is not None:
            raise DataError("A source has its own labels; leave labels out.")
        return data
    if hasattr(data, "tocsr"):
        raise DataError(
            "Embeddings must be a dense array [n, d], not a sparse matrix; sklearn.decomposition.TruncatedSVD makes "
            "one of it, or .toarray() if it fits in memory."
        )
    if hasattr(data, "__array__") and not isinstance(data, Sequence):
        source: Source = ArraySource(np.asarray(data), name="the given array")
    elif isinstance(data, Sequence) and not isinstance(data, bytes):
        source = ItemsSource(data)
    else:
        raise DataError(f"Data are a name, a path, an array, a list of items or a source, not {type(data).__name__}.")
    if not len(source):
        raise DataError("There are no items to train on.")
    if labels is not None:
        source.labels, source.label_names = _encoded(labels)
        if len(source.labels) != len(data):
            raise DataError(f"There are {len(data)} items but {len(source.labels)} labels.")
    source.label_advice = "give labels=…"
    return source


def _encoded(labels: Any) -> Encoded:
    values = list(labels)
    return encode_lists(values) if holds_lists(values) else encode_array(plain_labels(labels))
