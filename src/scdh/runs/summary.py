"""Scores as plain numbers, ready for JSON. Needs no torch."""

from typing import Any

from scdh.metrics.bootstrap import FEW_QUERIES, mean_interval
from scdh.metrics.scores import RankingScores

PRECISION_AT = (1, 10, 100, 500, 1000)
FEW_VALIDATION_ROWS = 20
MANY_RELEVANT = 0.5  # share of the items; a random order has about this MAP


def summarise(scores: RankingScores) -> dict[str, Any]:
    """Scores with their definition, the 95 % interval of MAP over queries, and the precision at some k."""
    ks = [k for k in PRECISION_AT if k <= scores.definition["database"]]
    precisions = {str(k): float(p) for k, p in zip(ks, scores.precision_at_k(ks), strict=True)}
    interval = list(mean_interval(scores.per_query["ap"]))
    return {**scores.to_dict(), "map_interval": interval, "precision_at_k": precisions}


def caution(scores: RankingScores, validation_rows: int = 0) -> str | None:
    """Sentences if scores depend on few rows, or if most items are relevant in any order, otherwise None."""
    queries, items = scores.definition["queries"], scores.definition["database"]
    relevant = float(scores.per_query["relevant"].mean()) / items if queries else 0.0
    sentences = []
    if relevant >= MANY_RELEVANT:
        sentences.append(
            f"A random order of the items has a MAP of about {relevant:.2f}, because a query shares a label with "
            f"{relevant:.0%} of them: labels that most items have say little."
        )
    few = [f"{queries} queries (below {FEW_QUERIES})"] if queries < FEW_QUERIES else []
    if 0 < validation_rows < FEW_VALIDATION_ROWS:
        few.append(f"{validation_rows} validation rows (below {FEW_VALIDATION_ROWS}), which settings were chosen by")
    if few:
        sentences.append(f"These scores are uncertain: they rest on {' and '.join(few)}.")
    return " ".join(sentences) or None
