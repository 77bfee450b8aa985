"""Definitions that the scores of a run depend on. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from scdh.data.source import Source
from scdh.errors import ConfigError, unknown_name
from scdh.label_arrays import NO_LABEL

USUAL_TOPK = {"nuswide21": 5000}  # how papers score it; other data are scored over the whole ranking


@dataclass(frozen=True)
class ScoreOptions:
    """Definitions that a score depends on.

    Args:
        topk, denominator, radius, ties: as :func:`scdh.evaluate` takes them; ``topk="usual"`` is the data's own.
        label_column: for data with several label columns, the one that decides what is relevant; None: all labels.
    """

    topk: int | Literal["usual"] | None = "usual"
    denominator: str = "hits"
    radius: int = 2
    ties: str = "expected"
    label_column: str | None = None

    def topk_for(self, source_name: str) -> int | None:
        return USUAL_TOPK.get(source_name) if self.topk == "usual" else self.topk

    def for_evaluate(self, source_name: str) -> dict[str, Any]:
        """Keyword arguments of :func:`scdh.evaluate`."""
        arguments = {**vars(self), "topk": self.topk_for(source_name)}
        del arguments["label_column"]
        return arguments

    def agree_with(self, definition: Mapping[str, Any], source_name: str) -> bool:
        """Whether these options give scores of this definition (as in a run's scores file)."""
        expected = {**self.for_evaluate(source_name), "label_column": self.label_column}
        if "radius" not in definition:  # of a ranking by another distance than Hamming's
            del expected["radius"]
        return all(definition.get(key) == value for key, value in expected.items())


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
