"""Scores as plain numbers, ready for JSON. Needs no torch."""

from typing import Any

from scdh.metrics.scores import RankingScores

PRECISION_AT = (1, 10, 100, 500, 1000)


def summarise(scores: RankingScores) -> dict[str, Any]:
    """Scores with their definition and the precision at some k."""
    ks = [k for k in PRECISION_AT if k <= scores.definition["database"]]
    precisions = {str(k): float(p) for k, p in zip(ks, scores.precision_at_k(ks), strict=True)}
    return {**scores.to_dict(), "precision_at_k": precisions}
