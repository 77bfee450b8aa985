"""The scores of a ranking, with their definition."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.metrics.ranking import check_topk
from scdh.metrics.returned import precision_at_k, precision_recall_by_radius, recall_at_k

NumbersOfItems = int | Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class RankingScores:
    """The scores of one ranking by distance, for distances of any kind.

    Attributes:
        map: mean over the queries of the average precision, for the chosen order of tied items.
        map_best: the same for the best order of tied items: no order gives more.
        map_worst: the same for the worst order: no order gives less.
        per_query: float64 arrays [q] by name: ``ap``, ``ap_best``, ``ap_worst`` and ``relevant`` (the number of items
            that are relevant to the query).
        definition: what the scores mean, ready for JSON: ``topk``, ``denominator``, ``ties``, ``leave_one_out``, the
            numbers of ``queries``, ``database`` items and ``classes``, and the definition in words, ``words``.
    """

    map: float
    map_best: float
    map_worst: float
    per_query: dict[str, NDArray[np.float64]] = field(repr=False)
    definition: dict[str, Any] = field(repr=False)
    _returned: "ReturnedCurves | ReturnedHistograms" = field(repr=False)

    def precision_at_k(self, k: NumbersOfItems) -> Any:
        """Mean share of relevant items among the first k, expected over the order of tied items.

        Args:
            k: one number of items, or several.

        Returns:
            A float, or float64 [number of k] if ``k`` is a list or an array.

        Raises:
            ConfigError: if a number is not whole or below 1.
        """
        return _for_each(self._returned.precision, k)

    def recall_at_k(self, k: NumbersOfItems) -> Any:
        """Mean share of all relevant items that are among the first k, expected over the order of tied items.

        ``k`` and the result are as for ``precision_at_k``.
        """
        return _for_each(self._returned.recall, k)

    def to_dict(self, per_query: bool = False) -> dict[str, Any]:
        """The scores and their definition, ready for JSON.

        Args:
            per_query: whether to add the values of each query, as lists.
        """
        result = {**self._numbers(), "definition": dict(self.definition)}
        if per_query:
            result["per_query"] = {name: values.tolist() for name, values in self.per_query.items()}
        return result

    def __str__(self) -> str:
        rows = self._table()
        width = max(len(label) for label, _, _ in rows)
        lines = [f"{label:<{width}}  {value:.4f}  {note}".rstrip() for label, value, note in rows]
        return "\n".join([*lines, self._sizes(), self.definition["words"]])

    def _numbers(self) -> dict[str, Any]:
        return {"map": self.map, "map_best": self.map_best, "map_worst": self.map_worst}

    def _table(self) -> list[tuple[str, float, str]]:
        topk = self.definition["topk"]
        name = "MAP" if topk is None else f"MAP@{topk}"
        return [
            (name, self.map, f"ties: {self.definition['ties']}"),
            (f"{name}, best ties", self.map_best, ""),
            (f"{name}, worst ties", self.map_worst, ""),
        ]

    def _sizes(self) -> str:
        return f"{self.definition['queries']} queries, {self.definition['database']} items"


@dataclass(frozen=True, eq=False)
class Scores(RankingScores):
    """The scores of a ranking by Hamming distance: those of ``RankingScores``, and those of a ball of a radius.

    ``per_query`` has also ``precision_at_radius`` and ``ball_size``, the number of items within the radius;
    ``definition`` has also ``radius`` and ``bits``.

    Attributes:
        precision_at_radius: mean share of relevant items among those within the radius; a query with no item there
            scores 0.
        empty_balls: share of the queries with no item within the radius.
    """

    precision_at_radius: float
    empty_balls: float
    _returned: "ReturnedHistograms" = field(repr=False)

    def precision_recall_curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean precision and mean recall of all items within radius 0, 1, … bits: two float64 arrays [bits + 1]."""
        return precision_recall_by_radius(self._returned.items, self._returned.relevant)

    def _numbers(self) -> dict[str, Any]:
        return {
            **super()._numbers(),
            "precision_at_radius": self.precision_at_radius,
            "empty_balls": self.empty_balls,
        }

    def _table(self) -> list[tuple[str, float, str]]:
        label = f"precision, radius {self.definition['radius']}"
        return [*super()._table(), (label, self.precision_at_radius, f"empty balls: {100 * self.empty_balls:.1f} %")]

    def _sizes(self) -> str:
        return f"{super()._sizes()}, {self.definition['bits']} bits"


@dataclass(frozen=True, eq=False)
class ReturnedHistograms:
    """Precision and recall of the first k items from the histograms [q, levels] of ``distance_histograms``."""

    items: NDArray[np.integer]
    relevant: NDArray[np.integer]

    def precision(self, k: int) -> float:
        return float(precision_at_k(self.items, self.relevant, k).mean())

    def recall(self, k: int) -> float:
        return float(recall_at_k(self.items, self.relevant, k).mean())


@dataclass(frozen=True, eq=False)
class ReturnedCurves:
    """Mean precision and recall of the first 1, 2, … n items, float64 [n] each."""

    precisions: NDArray[np.float64]
    recalls: NDArray[np.float64]

    def precision(self, k: int) -> float:
        return _value_at(self.precisions, k)

    def recall(self, k: int) -> float:
        return _value_at(self.recalls, k)


def _value_at(curve: NDArray[np.float64], k: int) -> float:
    """Beyond the last item nothing more is returned."""
    check_topk(k, "k")
    return float(curve[min(int(k), len(curve)) - 1]) if len(curve) else 0.0


def _for_each(score: Callable[[int], float], k: Any) -> Any:
    return score(k) if np.ndim(k) == 0 else np.array([score(number) for number in k], dtype=np.float64)
