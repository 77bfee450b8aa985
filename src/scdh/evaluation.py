"""Codes and labels in, scores out; every score carries the definition it was computed by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.code_checks import check_hamming_codes
from scdh.codes import Codes
from scdh.errors import ConfigError, DataError, unknown_name
from scdh.metrics.histograms import distance_histograms
from scdh.metrics.labels import check_labels
from scdh.metrics.ordered import ordered_average_precision
from scdh.metrics.radius import check_radius, precision_within_radius
from scdh.metrics.ranking import DENOMINATORS, average_precisions, check_topk
from scdh.metrics.returned import precision_at_k, precision_recall_by_radius, recall_at_k
from scdh.progress import count_progress

TIES = ("expected", "best", "worst", "order")
_TIE_WORDS = {
    "expected": "the mean over all orders of tied items",
    "best": "the best order of tied items",
    "worst": "the worst order of tied items",
    "order": "tied items in the order of the database rows",
}
_DENOMINATOR_WORDS = {
    "hits": "the relevant items in the top k",
    "relevant": "all relevant items",
    "min(k, relevant)": "the smaller of k and all relevant items",
}


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one ranking, and how they are defined.

    ``map`` is for the order of ties that was asked for; ``map_best`` and ``map_worst`` bound what any order
    could give. ``empty_balls`` is the share of queries with nothing within the radius; such a query scores 0
    in ``precision_at_radius``. ``per_query`` holds float64 arrays of one value per query: ``ap``,
    ``ap_best``, ``ap_worst``, ``precision_at_radius``, ``ball_size`` and ``relevant`` (how many items are
    relevant).
    """

    map: float
    map_best: float
    map_worst: float
    precision_at_radius: float
    empty_balls: float
    per_query: dict[str, NDArray[np.float64]] = field(repr=False)
    definition: dict[str, Any] = field(repr=False)
    _items: NDArray[np.integer] = field(repr=False)
    _relevant: NDArray[np.integer] = field(repr=False)

    def precision_at_k(self, k: int | Sequence[int] | NDArray[np.integer]) -> Any:
        """Mean share of relevant items in the first k, expected over ties; an array if k is a list."""
        return self._mean_at(precision_at_k, k)

    def recall_at_k(self, k: int | Sequence[int] | NDArray[np.integer]) -> Any:
        """Mean share of the relevant items that the first k hold, expected over ties."""
        return self._mean_at(recall_at_k, k)

    def precision_recall_curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean precision and recall of all items within radius 0, 1, … bits, an array of each."""
        return precision_recall_by_radius(self._items, self._relevant)

    def _mean_at(self, measure: Any, k: Any) -> Any:
        if np.ndim(k) == 0:
            return float(measure(self._items, self._relevant, k).mean())
        return np.array([measure(self._items, self._relevant, one).mean() for one in k], dtype=np.float64)

    def to_dict(self, per_query: bool = False) -> dict[str, Any]:
        """Ready for JSON; with ``per_query`` the values of each query too, as lists."""
        result: dict[str, Any] = {
            "map": self.map,
            "map_best": self.map_best,
            "map_worst": self.map_worst,
            "precision_at_radius": self.precision_at_radius,
            "empty_balls": self.empty_balls,
            "definition": dict(self.definition),
        }
        if per_query:
            result["per_query"] = {name: values.tolist() for name, values in self.per_query.items()}
        return result

    def __str__(self) -> str:
        about = self.definition
        name = "MAP" if about["topk"] is None else f"MAP@{about['topk']}"
        ball = f"precision, radius {about['radius']}"
        rows = [
            (name, f"{self.map:.4f}", f"ties: {about['ties']}"),
            (f"{name}, best ties", f"{self.map_best:.4f}", ""),
            (f"{name}, worst ties", f"{self.map_worst:.4f}", ""),
            (ball, f"{self.precision_at_radius:.4f}", f"empty balls: {100 * self.empty_balls:.1f} %"),
        ]
        width = max(len(row[0]) for row in rows)
        lines = [f"{label:<{width}}  {value}  {note}".rstrip() for label, value, note in rows]
        lines.append(f"{about['queries']} queries, {about['database']} items, {about['bits']} bits")
        return "\n".join([*lines, about["words"]])


def evaluate(
    query_codes: Codes,
    query_labels: ArrayLike,
    database_codes: Codes,
    database_labels: ArrayLike,
    *,
    topk: int | None = None,
    denominator: str = "hits",
    radius: int = 2,
    ties: str = "expected",
    leave_one_out: bool = False,
    progress: bool = False,
) -> Scores:
    """Score the ranking of the database by Hamming distance to each query.

    Labels are whole numbers [n] (−1: unlabelled) or multi-hot [n, C]; a shared label makes an item relevant.

    - ``topk``: only the first k items count; None means the whole ranking.
    - ``denominator``: what average precision is divided by: "hits", "relevant" or "min(k, relevant)".
    - ``radius``: of the ball for ``precision_at_radius``.
    - ``ties``: "expected" (over all orders of tied items), "best", "worst", or "order" (the order of the
      database rows: the classic number, which changes when the database is shuffled).
    - ``leave_one_out``: the queries are the database, and no query finds its own row.

    A query without a hit scores 0 and stays in the mean.

    >>> codes = Codes.from_bits([[0, 0], [0, 1], [1, 1]])
    >>> scores = evaluate(codes[:1], [4], codes, [4, 9, 4])
    >>> round(scores.map, 4), scores.precision_at_k(1)
    (0.8333, 1.0)
    """
    check_hamming_codes(query_codes, "query_codes")
    check_hamming_codes(database_codes, "database_codes", query_codes.bits)
    if len(query_codes) == 0 or len(database_codes) == 0:
        raise DataError(
            "There must be at least one query and one database item to score, "
            f"got {len(query_codes)} queries and {len(database_codes)} items."
        )
    check_topk(topk)
    check_radius(radius)
    if denominator not in DENOMINATORS:
        raise ConfigError(unknown_name("denominator", denominator, DENOMINATORS))
    if ties not in TIES:
        raise ConfigError(unknown_name("order of ties", ties, TIES))
    query_labels = check_labels(query_labels, len(query_codes), "query_labels")
    database_labels = check_labels(database_labels, len(database_codes), "database_labels")
    if leave_one_out:
        _refuse_other_rows(query_codes, query_labels, database_codes, database_labels)

    data = (query_codes, query_labels, database_codes, database_labels)
    passes = 2 if ties == "order" else 1
    pairs = passes * len(query_codes) * len(database_codes)
    with count_progress(pairs, "scoring", "pairs", visible=progress) as advance:
        items, relevant = distance_histograms(*data, leave_one_out=leave_one_out, advance=advance)
        options: dict[str, Any] = {"topk": topk, "denominator": denominator}
        expected, best, worst = average_precisions(items, relevant, ("expected", "best", "worst"), **options)
        # The last digit of a float must not put the mean outside of its bounds.
        best, worst = np.maximum(best, expected), np.minimum(worst, expected)
        if ties == "order":
            ap = ordered_average_precision(
                *data, items, relevant, leave_one_out=leave_one_out, advance=advance, **options
            )
        else:
            ap = {"expected": expected, "best": best, "worst": worst}[ties]

    precision, sizes = precision_within_radius(items, relevant, radius)
    small = np.int32 if len(database_codes) <= np.iinfo(np.int32).max else np.int64
    return Scores(
        map=float(ap.mean()),
        map_best=float(best.mean()),
        map_worst=float(worst.mean()),
        precision_at_radius=float(precision.mean()),
        empty_balls=float(np.mean(sizes == 0)),
        per_query={
            "ap": ap,
            "ap_best": best,
            "ap_worst": worst,
            "precision_at_radius": precision,
            "ball_size": sizes.astype(np.float64),
            "relevant": relevant.sum(axis=1).astype(np.float64),
        },
        definition={
            "topk": None if topk is None else int(topk),
            "denominator": denominator,
            "radius": int(radius),
            "ties": ties,
            "leave_one_out": bool(leave_one_out),
            "queries": len(query_codes),
            "database": len(database_codes),
            "bits": database_codes.bits,
            "classes": None if database_labels.ndim == 1 else int(database_labels.shape[1]),
            "words": _words(topk, denominator, radius, ties, leave_one_out),
        },
        _items=items.astype(small),
        _relevant=relevant.astype(small),
    )


def _words(topk: int | None, denominator: str, radius: int, ties: str, leave_one_out: bool) -> str:
    """The definition as a reader would want it under a table."""
    part = "the whole ranking" if topk is None else f"the first {topk} items"
    over = "all relevant items" if topk is None else _DENOMINATOR_WORDS[denominator]
    own = ", its own row left out" if leave_one_out else ""
    return (
        f"Items are ranked by Hamming distance to each query{own}, and are relevant if they share a label. "
        f"MAP is the mean over all queries of the average precision of {part}, divided by {over}, "
        f"for {_TIE_WORDS[ties]}; a query without a hit scores 0. "
        f"Precision within radius {radius} is 0 for a query with no item there."
    )


def _refuse_other_rows(query: Codes, query_labels: Any, database: Codes, database_labels: Any) -> None:
    """Leaving "the own row" out makes sense only if row i is the same item on both sides."""
    if len(query) != len(database):
        raise DataError(
            "With leave_one_out the queries are the database itself, "
            f"but there are {len(query)} queries and {len(database)} items."
        )
    if not np.array_equal(query.packed, database.packed) or not np.array_equal(query_labels, database_labels):
        raise DataError("With leave_one_out the queries are the database itself, but codes or labels differ.")
