"""Score the float vectors that codes were made from, ranked by cosine: the baseline for the codes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scdh.data.source import Source
from scdh.evaluation import evaluate_distances
from scdh.methods.base import Method
from scdh.metrics.cosine import COSINE, cosine_distances
from scdh.metrics.scores import RankingScores
from scdh.model.hasher import Hasher
from scdh.runs.score_options import ScoreOptions, scored_labels
from scdh.runs.source_features import has_untrained_trunk
from scdh.runs.summary import summarise

MOST_BYTES = 4 << 30  # of the database's vectors, which must all fit in memory
TOP_KS, TOP_LOSS = (1, 10), 0.01  # loss in precision of the first k that is not reported, if MAP is higher
# 600 classes with one training row each (32 bits, 64 floats of MAP 0.56): MAP of SCDH 0.05, of ITQ 0.21.
FEW_ROWS = 2.0
FeaturesOfRows = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class FloatScores:
    """Scores of float vectors of ``width`` numbers, ranked by cosine."""

    width: int
    scores: RankingScores = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.width:,} floats"

    @property
    def bytes(self) -> int:
        """Bytes per item."""
        return 4 * self.width

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, as in a run's scores file."""
        return {"width": self.width, "bytes": self.bytes, **summarise(self.scores)}


def score_floats(
    source: Source,
    query_rows: np.ndarray,
    database_rows: np.ndarray,
    features_of_rows: FeaturesOfRows,
    options: ScoreOptions = ScoreOptions(),  # noqa: B008 (it is frozen)
    *,
    leave_one_out: bool = False,
    progress: bool = False,
) -> FloatScores:
    """Score the ranking of the database by cosine, with the rows, the labels and the definitions of the codes."""
    query_rows, queries = features_of_rows(query_rows)
    database_rows, database = (query_rows, queries) if leave_one_out else features_of_rows(database_rows)
    labels, _ = scored_labels(source, options.label_column)
    arguments = options.for_evaluate(source.name)
    del arguments["radius"]
    scores = evaluate_distances(
        cosine_distances(queries, database),
        labels[query_rows],
        labels[database_rows],
        leave_one_out=leave_one_out,
        distance_name=COSINE,
        progress=progress,
        **arguments,
    )
    return FloatScores(int(database.shape[1]), scores)


def why_no_floats(hasher: Hasher, items: int) -> str | None:
    """Why the vectors behind a model's codes are not scored, as the end of a sentence; None: they are."""
    if hasher.preprocess is not None and not has_untrained_trunk(hasher):
        return "the network was tuned for these codes (net.freeze is not true), and its features are not kept"
    width = hasher.network.trunk_width if hasher.feature_width is None else hasher.feature_width
    size = 4 * width * items
    if size > MOST_BYTES:
        return f"those of {items:,} items take {size / 2**30:.1f} GB of memory"
    return None


def advice_against_floats(
    codes: RankingScores,
    floats: FloatScores,
    method: Method,
    labels: np.ndarray,
    by_outputs: RankingScores | None = None,
) -> str | None:
    """A sentence with advice if codes score below their floats, in MAP or at the top of the list; otherwise None."""
    if codes.map >= floats.scores.map:
        return _advice_at_the_top(codes, floats, by_outputs)
    rows = _rows_per_label(labels)
    few = f"with {rows:.1f} items per label there is little to learn from labels"
    if not method.learns_by_gradient:
        advice = f"{method.about.title} does not learn from labels; try --method scdh, or more bits"
        if rows < FEW_ROWS:
            advice = f"try more bits (--bits), as {few}"
    elif rows < FEW_ROWS:
        advice = f"{few}; try more bits (--bits), or --method itq, which learns without them"
    elif by_outputs is not None and by_outputs.map >= floats.scores.map:
        advice = (
            f"--rank outputs of `scdh search` ranks them better (MAP {by_outputs.map:.3f}); or try more bits (--bits)"
        )
    else:
        advice = "try more bits (--bits), more epochs (--epochs) or another learning rate (--set train.lr_head=…)"
    return f"These codes score below the {floats.name} they were made from: {advice}."


def _advice_at_the_top(codes: RankingScores, floats: FloatScores, by_outputs: RankingScores | None) -> str | None:
    """A sentence if floats with a lower MAP find more among the first items."""
    gaps = {k: floats.scores.precision_at_k(k) - codes.precision_at_k(k) for k in TOP_KS}
    k = max(TOP_KS, key=lambda k: gaps[k])
    if gaps[k] < TOP_LOSS:
        return None
    theirs, own = floats.scores.precision_at_k(k), codes.precision_at_k(k)
    found = f"the precision of the first {'item' if k == 1 else f'{k} items'} is {theirs:.3f}, of the codes {own:.3f}"
    remedy = "kept embeddings (docs/search.md, ranking by vectors) or more bits (--bits) may come closer"
    if by_outputs is not None and by_outputs.precision_at_k(k) >= own + TOP_LOSS:
        remedy = f"--rank outputs of `scdh search` reaches {by_outputs.precision_at_k(k):.3f}; {remedy}"
    return f"At the top of the list the {floats.name} are better, although their MAP is lower: {found}; {remedy}."


def _rows_per_label(labels: np.ndarray) -> float:
    """Mean over the labels that occur."""
    counts = labels.sum(axis=0, dtype=np.int64) if labels.ndim == 2 else np.bincount(labels[labels >= 0])
    return float(counts[counts > 0].mean()) if counts.any() else 0.0
