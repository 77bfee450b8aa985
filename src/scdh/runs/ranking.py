"""Score a model's codes by the distance that its method ranks by: Hamming distance, or one of its own."""

from typing import Any

import numpy as np

from scdh.codes import HAMMING, Codes
from scdh.evaluation import evaluate, evaluate_distances
from scdh.metrics.scores import RankingScores
from scdh.model.hasher import Hasher
from scdh.nets.network import Network


def score_ranking(
    hasher: Hasher,
    queries: Codes,
    query_outputs: np.ndarray | None,
    query_labels: np.ndarray,
    database: Codes,
    database_labels: np.ndarray,
    *,
    network: Network | None = None,
    radius: int = 2,
    **options: Any,
) -> RankingScores:
    """Score the database's ranking for each query; ``query_outputs``, u [q, r], only for another distance."""
    if hasher.method.ranking == HAMMING:
        return evaluate(queries, query_labels, database, database_labels, radius=radius, **options)
    assert query_outputs is not None  # KeptOutputs kept them
    net = network or hasher.network
    method = hasher.method
    outputs = query_outputs
    return evaluate_distances(
        lambda rows: method.distances(net, outputs[rows], database),
        query_labels,
        database_labels,
        distance_name=method.ranking,
        **options,
    )
