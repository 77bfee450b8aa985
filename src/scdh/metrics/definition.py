"""The definition of a score, as numbers and in sentences that a reader wants under a table."""

from typing import Any

from numpy.typing import NDArray

from scdh.codes import HAMMING

TIES = ("expected", "best", "worst", "order")
_TIES_TEXT = {
    "expected": "the mean over all orders of tied items",
    "best": "the best order of tied items",
    "worst": "the worst order of tied items",
    "order": "tied items in the order of the database rows",
}
_DENOMINATOR_TEXT = {
    "hits": "the relevant items in the top k",
    "relevant": "all relevant items",
    "min(k, relevant)": "the smaller of k and all relevant items",
}


def describe(
    *,
    topk: int | None,
    denominator: str,
    ties: str,
    leave_one_out: bool,
    labels: tuple[NDArray[Any], NDArray[Any]],
    distance: str = HAMMING,
    radius: int | None = None,
    bits: int | None = None,
) -> dict[str, Any]:
    """The definition, ready for JSON; ``labels`` are those of the queries and of the database.

    ``radius`` and ``bits`` are given, and are in the definition, for Hamming distances only.
    """
    query_labels, database_labels = labels
    topk = None if topk is None else int(topk)
    return {
        "topk": topk,
        "denominator": denominator,
        **({} if radius is None else {"radius": int(radius)}),
        "ties": ties,
        "leave_one_out": bool(leave_one_out),
        "queries": len(query_labels),
        "database": len(database_labels),
        **({} if bits is None else {"bits": bits}),
        "classes": None if database_labels.ndim == 1 else int(database_labels.shape[1]),
        "words": _text(distance, topk, denominator, ties, leave_one_out, radius),
    }


def _text(distance: str, topk: int | None, denominator: str, ties: str, leave_one_out: bool, radius: int | None) -> str:
    """What MAP, and the precision within a radius if there is one, mean for these options."""
    ranking = "the whole ranking" if topk is None else f"the first {topk} items"
    divisor = "all relevant items" if topk is None else _DENOMINATOR_TEXT[denominator]
    excluded = ", its own row left out" if leave_one_out else ""
    text = (
        f"Items are ranked by {distance} to each query{excluded}, and are relevant if they share a label. "
        f"MAP is the mean over all queries of the average precision of {ranking}, divided by {divisor}, "
        f"for {_TIES_TEXT[ties]}; a query without a hit scores 0."
    )
    if radius is None:
        return text
    return f"{text} Precision within radius {radius} is 0 for a query with no item there."
