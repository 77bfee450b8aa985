"""Scores as plain numbers, ready for JSON. Needs no torch."""

from typing import Any

from scdh.metrics.bootstrap import FEW_QUERIES, mean_interval
from scdh.metrics.scores import RankingScores

PRECISION_AT = (1, 10, 100, 500, 1000)
FEW_VALIDATION_ROWS = 20


def summarise(scores: RankingScores) -> dict[str, Any]:
    """Scores with their definition, the 95 % interval of MAP over queries, and the precision at some k."""
    ks = [k for k in PRECISION_AT if k <= scores.definition["database"]]
    precisions = {str(k): float(p) for k, p in zip(ks, scores.precision_at_k(ks), strict=True)}
    interval = list(mean_interval(scores.per_query["ap"]))
    return {**scores.to_dict(), "map_interval": interval, "precision_at_k": precisions}


def caution(queries: int, validation_rows: int = 0) -> str | None:
    """A sentence if a score depends on few rows, otherwise None."""
    few = [f"{queries} queries (below {FEW_QUERIES})"] if queries < FEW_QUERIES else []
    if 0 < validation_rows < FEW_VALIDATION_ROWS:
        few.append(f"{validation_rows} validation rows (below {FEW_VALIDATION_ROWS}), which settings were chosen by")
    return f"These scores are uncertain: they rest on {' and '.join(few)}." if few else None
