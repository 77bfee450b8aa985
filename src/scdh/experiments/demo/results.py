"""What a comparison found, as plain numbers: ``scores.json``, and the one place the report takes its figures from."""

from typing import Any

import numpy as np

from scdh.evaluation import Scores
from scdh.experiments.demo.comparison import Comparison, Entry
from scdh.experiments.demo.cosine import WORDS
from scdh.metrics.statistics import code_statistics
from scdh.versions import versions

PRECISION_AT = 10


def summary(found: Comparison) -> dict[str, Any]:
    """Ready for JSON. Per-query scores are left to :func:`per_query`."""
    protocol, first = found.protocol, found.longest().scores
    assert isinstance(first, Scores)
    longest = found.longest().bits
    return {
        "data": found.source.name,
        "seed": found.config.seed,
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "counts": {
            "train": len(protocol.train),
            "query": len(protocol.query),
            "database": len(protocol.database),
            "distinct_query": len(found.distinct_queries),
            "labels": len(found.label_names),
        },
        "scores": [_row(entry) for entry in found.entries],
        "statistics": [_statistics(found, entry) for entry in found.entries if entry.bits == longest],
        "definition": {"codes": dict(first.definition) | {"bits": None}, "floats": WORDS},
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
        "versions": versions(),
        "config": found.config.model_dump(mode="json"),
    }


def per_query(found: Comparison) -> dict[str, np.ndarray]:
    """Row numbers and average precision of every query, by method."""
    aps = {
        entry.name: entry.scores.per_query["ap"] if isinstance(entry.scores, Scores) else entry.scores.ap
        for entry in found.entries
    }
    return {"rows": found.protocol.query, **aps}


def _row(entry: Entry) -> dict[str, Any]:
    scores = entry.scores
    row: dict[str, Any] = {
        "method": entry.method,
        "bits": entry.bits,
        "bytes": entry.bytes,
        "map": scores.map,
        "map_best": None,
        "map_worst": None,
        "precision_at_radius": None,
        "empty_balls": None,
        "precision_at_10": float(scores.precision_at_k(PRECISION_AT)),
    }
    if isinstance(scores, Scores):
        row |= {name: getattr(scores, name) for name in row if hasattr(scores, name)}
    return row


def _statistics(found: Comparison, entry: Entry) -> dict[str, Any]:
    """Of the database's codes, as they lie in an index; l_q of the queries' outputs, where there are any."""
    assert entry.database is not None  # entries without codes have no bits either
    return {
        "method": entry.method,
        **code_statistics(entry.database, found.database_labels),
        "l_q": entry.l_q,
    }
