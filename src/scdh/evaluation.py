"""Score codes or distances with labels; every score carries its definition."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import HAMMING, Codes
from scdh.codes.checks import check_hamming_codes
from scdh.errors import CodesError, ConfigError, DataError, unknown_name
from scdh.index.byte_tables import table_distances
from scdh.index.kernels.distances import word_columns
from scdh.index.weights import NAME as WEIGHTED
from scdh.index.weights import check_weights, weight_tables
from scdh.metrics.histograms import distance_histograms
from scdh.metrics.label_names import check_both_labels
from scdh.metrics.ordered import ordered_average_precision
from scdh.metrics.ranking import DENOMINATORS, average_precisions, check_topk
from scdh.metrics.real_distances import DistanceSource, check_distances, score_distances
from scdh.metrics.relevance import Relevance
from scdh.metrics.returned import check_radius, precision_within_radius
from scdh.metrics.scores import RankingScores, ReturnedCurves, ReturnedHistograms, Scores
from scdh.progress import count_progress

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
    """The meaning of MAP, and of the precision within a radius if there is one, for these options."""
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


__all__ = ["TIES", "RankingScores", "Scores", "evaluate", "evaluate_distances", "evaluate_outputs"]

# Always computed: the expected value and its bounds.
BOUNDS = ("expected", "best", "worst")
Floats = NDArray[np.float64]


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

    An item is relevant to a query if they share a label. A query without a hit scores 0 and stays in the mean.

    Args:
        query_codes: q codes.
        query_labels: int [q], −1 for unlabelled; or multi-hot [q, C], a row of zeros for unlabelled; or q names
            (−1, None or "" for unlabelled), or q lists of names.
        database_codes: n codes of the same bits.
        database_labels: numbers or names of the n items, as for the queries.
        topk: only the first k items count; None means the whole ranking.
        denominator: what average precision is divided by: "hits" (the relevant items in the top k), "relevant" (all
            relevant items) or "min(k, relevant)".
        radius: radius of the ball for ``precision_at_radius``, in bits.
        ties: how ``map`` orders items at the same distance: "expected" (the mean over all orders), "best", "worst", or
            "order" (the order of the database rows: the classic number, which changes when the database is shuffled).
        leave_one_out: the queries are the database, and no query finds its own row.
        progress: whether to show progress on standard error.

    Returns:
        ``Scores``, with their definition and the values of each query.

    Raises:
        CodesError: if the codes differ in bits, or are not ranked by Hamming distance.
        DataError: if labels do not fit, or there are no queries or no items.
        ConfigError: if an option has a value that is not described here.

    >>> codes = Codes.from_bits([[0, 0], [0, 1], [1, 1]])
    >>> scores = evaluate(codes[:1], [4], codes, [4, 9, 4])
    >>> round(scores.map, 4), scores.precision_at_k(1)
    (0.8333, 1.0)
    >>> evaluate(codes[:1], ["pear"], codes, ["pear", "apple", "pear"]).map == scores.map
    True
    """
    if isinstance(query_labels, Codes):
        raise CodesError("The order is evaluate(query_codes, query_labels, database_codes, database_labels).")
    check_hamming_codes(query_codes, "query_codes")
    check_hamming_codes(database_codes, "database_codes", query_codes.bits)
    _check_options(len(query_codes), len(database_codes), topk, denominator, ties)
    check_radius(radius)
    query_labels, database_labels = check_both_labels(
        query_labels, len(query_codes), database_labels, len(database_codes)
    )
    if leave_one_out:
        _reject_other_rows(query_codes, query_labels, database_codes, database_labels)

    data = (query_codes, query_labels, database_codes, database_labels)
    passes = 2 if ties == "order" else 1
    pairs = passes * len(query_codes) * len(database_codes)
    with count_progress(pairs, "scoring", "pairs", visible=progress) as advance:
        items, relevant = distance_histograms(*data, leave_one_out=leave_one_out, advance=advance)
        options: dict[str, Any] = {"topk": topk, "denominator": denominator}
        scores = dict(zip(BOUNDS, average_precisions(items, relevant, BOUNDS, **options), strict=True))
        if ties == "order":
            scores["order"] = ordered_average_precision(
                *data, items, relevant, leave_one_out=leave_one_out, advance=advance, **options
            )

    per_query = _per_query(scores, ties)
    precision, sizes = precision_within_radius(items, relevant, radius)
    count_type = np.int32 if len(database_codes) <= np.iinfo(np.int32).max else np.int64
    return Scores(
        **_means(per_query),
        precision_at_radius=float(precision.mean()),
        empty_balls=float(np.mean(sizes == 0)),
        per_query={
            **per_query,
            "precision_at_radius": precision,
            "ball_size": sizes.astype(np.float64),
            "relevant": relevant.sum(axis=1).astype(np.float64),
        },
        definition=describe(
            topk=topk,
            denominator=denominator,
            ties=ties,
            leave_one_out=leave_one_out,
            labels=(query_labels, database_labels),
            radius=radius,
            bits=database_codes.bits,
        ),
        _returned=ReturnedHistograms(items.astype(count_type), relevant.astype(count_type)),
    )


def evaluate_distances(
    distances: DistanceSource,
    query_labels: ArrayLike,
    database_labels: ArrayLike,
    *,
    topk: int | None = None,
    denominator: str = "hits",
    ties: str = "expected",
    leave_one_out: bool = False,
    distance_name: str = "the given distance",
    progress: bool = False,
) -> RankingScores:
    """Score the ranking of the database by distances of any kind: real numbers, smaller is nearer.

    The definitions are those of ``evaluate``; items are tied if their distances from the query are equal to the
    last digit. For Hamming distances the scores are those of ``evaluate``.

    Args:
        distances: real numbers [q, n]; or a function that takes a slice ``rows`` of the queries and returns their
            distances [len, n], so that the whole table need not be in memory. None may be NaN.
        query_labels: q labels, as for ``evaluate``.
        database_labels: n labels, as for ``evaluate``.
        topk: as for ``evaluate``.
        denominator: as for ``evaluate``.
        ties: as for ``evaluate``.
        leave_one_out: the queries are the database (q = n), and no query finds its own row.
        distance_name: name of the distance in the text of the definition.
        progress: whether to show progress on standard error.

    Returns:
        ``RankingScores``; precision within a radius is defined for Hamming distances only.

    Raises:
        DataError: if distances or labels do not fit together, or there are no queries or no items.
        ConfigError: if an option has a value that is not described here.

    >>> scores = evaluate_distances([[0.1, 0.5, 0.7]], [4], [4, 9, 4], distance_name="cosine distance")
    >>> round(scores.map, 4), scores.precision_at_k(1)
    (0.8333, 1.0)
    """
    if not callable(distances):
        distances = check_distances(distances)
    query_count, item_count = (None, None) if callable(distances) else distances.shape
    query_labels, database_labels = check_both_labels(query_labels, query_count, database_labels, item_count)
    _check_options(len(query_labels), len(database_labels), topk, denominator, ties)
    if leave_one_out and not np.array_equal(query_labels, database_labels):
        raise DataError("With leave_one_out the queries are the database itself, but their labels differ.")

    relevance = Relevance(query_labels, database_labels)
    pairs = len(query_labels) * len(database_labels)
    with count_progress(pairs, "scoring", "pairs", visible=progress) as advance:
        scored = score_distances(
            distances,
            relevance,
            topk=topk,
            denominator=denominator,
            ties=TIES if ties == "order" else BOUNDS,
            leave_one_out=leave_one_out,
            advance=advance,
        )
    per_query = _per_query(scored.average_precisions, ties)
    return RankingScores(
        **_means(per_query),
        per_query={**per_query, "relevant": scored.relevant.astype(np.float64)},
        definition=describe(
            topk=topk,
            denominator=denominator,
            ties=ties,
            leave_one_out=leave_one_out,
            labels=(query_labels, database_labels),
            distance=distance_name,
        ),
        _returned=ReturnedCurves(scored.precision_sums / len(query_labels), scored.recall_sums / len(query_labels)),
    )


def evaluate_outputs(
    query_codes: Codes,
    outputs: ArrayLike,
    query_labels: ArrayLike,
    database_codes: Codes,
    database_labels: ArrayLike,
    **options: Any,
) -> RankingScores:
    """Score the ranking of the database by the queries' real outputs: Σ |u| over the bits that differ.

    Args:
        query_codes: q codes.
        outputs: u [q, bits], the real outputs whose signs are these codes.
        query_labels: q labels, as for ``evaluate``.
        database_codes: n codes of the same bits.
        database_labels: n labels, as for ``evaluate``.
        options: ``topk``, ``denominator``, ``ties``, ``leave_one_out`` and ``progress`` of ``evaluate``.

    Returns:
        ``RankingScores``; items are tied if their distances are equal to the last digit.

    >>> codes = Codes.from_bits([[0, 0], [0, 1], [1, 0]])
    >>> evaluate_outputs(codes[:1], [[-0.9, -0.1]], [4], codes, [4, 4, 9]).map  # the second bit was hardly decided
    1.0
    """
    check_hamming_codes(query_codes, "query_codes")
    check_hamming_codes(database_codes, "database_codes", query_codes.bits)
    tables = weight_tables(query_codes, check_weights(np.abs(np.asarray(outputs)), query_codes))
    words = word_columns(database_codes)
    return evaluate_distances(
        lambda rows: table_distances(tables[rows], words),
        query_labels,
        database_labels,
        distance_name=WEIGHTED,
        **options,
    )


def _check_options(queries: int, items: int, topk: int | None, denominator: str, ties: str) -> None:
    if queries == 0 or items == 0:
        raise DataError(
            f"There must be at least one query and one database item to score, got {queries} queries and {items} items."
        )
    check_topk(topk)
    if denominator not in DENOMINATORS:
        raise ConfigError(unknown_name("denominator", denominator, DENOMINATORS))
    if ties not in TIES:
        raise ConfigError(unknown_name("order of ties", ties, TIES))


def _reject_other_rows(query: Codes, query_labels: Any, database: Codes, database_labels: Any) -> None:
    """A query can leave out its own row only if row i is the same item on both sides."""
    if len(query) != len(database):
        raise DataError(
            "With leave_one_out the queries are the database itself, "
            f"but there are {len(query)} queries and {len(database)} items."
        )
    if not np.array_equal(query.packed, database.packed) or not np.array_equal(query_labels, database_labels):
        raise DataError("With leave_one_out the queries are the database itself, but codes or labels differ.")


def _per_query(average_precisions: dict[str, Floats], ties: str) -> dict[str, Floats]:
    expected = average_precisions["expected"]
    # The last digit of a float must not put the expected value outside of its bounds.
    best, worst = np.maximum(average_precisions["best"], expected), np.minimum(average_precisions["worst"], expected)
    return {"ap": {**average_precisions, "best": best, "worst": worst}[ties], "ap_best": best, "ap_worst": worst}


def _means(per_query: dict[str, Floats]) -> dict[str, float]:
    names = {"map": "ap", "map_best": "ap_best", "map_worst": "ap_worst"}
    return {name: float(per_query[key].mean()) for name, key in names.items()}
