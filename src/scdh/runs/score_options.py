"""Definitions that the scores of a run depend on. Needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

USUAL_TOPK = {"nuswide21": 5000}  # how papers score it; other data are scored over the whole ranking


@dataclass(frozen=True)
class ScoreOptions:
    """Definitions that a score depends on.

    Args:
        topk, denominator, radius, ties: as :func:`scdh.evaluate` takes them; ``topk="usual"`` is the data's own.
        label_column: of data with several label columns, the one that decides what is relevant; None: all labels.
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
        """Whether scores of this definition (as in a run's scores file) are those that these options give."""
        expected = {**self.for_evaluate(source_name), "label_column": self.label_column}
        if "radius" not in definition:  # of a ranking by another distance than Hamming's
            del expected["radius"]
        return all(definition.get(key) == value for key, value in expected.items())
