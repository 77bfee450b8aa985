"""Which labels decide what is relevant when codes are scored."""

import numpy as np

from scdh.data.source import Source
from scdh.errors import ConfigError, unknown_name
from scdh.label_arrays import NO_LABEL


def scored_labels(source: Source, column: str | None = None) -> tuple[np.ndarray, list[str]]:
    """Labels of all rows of a source, or those of one label column.

    Args:
        source: the data; where they have several label columns, their labels are called ``column=value``.
        column: name of the label column that counts; None: all labels.

    Returns:
        int64 [n] (−1: no label) or multi-hot uint8 [n, C], and the C names, without ``column=``.

    Raises:
        ConfigError: if the data have no such label column.
    """
    if column is None:
        return source.labels, source.label_names
    prefix = f"{column}="
    numbers = [number for number, name in enumerate(source.label_names) if name.startswith(prefix)]
    if not source.multi_label or not numbers:
        columns = {name.partition("=")[0] for name in source.label_names if source.multi_label and "=" in name}
        if not columns:
            raise ConfigError(f"{source.name} has no label columns to choose from, so not {column!r} either.")
        raise ConfigError(unknown_name("label column", column, columns))
    chosen = source.labels[:, numbers]
    names = [source.label_names[number].removeprefix(prefix) for number in numbers]
    if (chosen.sum(axis=1) > 1).any():
        return chosen, names
    return np.where(chosen.any(axis=1), chosen.argmax(axis=1), NO_LABEL), names
