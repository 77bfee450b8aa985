"""Scores of a model's codes by the distance that its method ranks by: the Hamming distance, or one of its own."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from scdh.codes import HAMMING, Codes
from scdh.evaluation import evaluate, evaluate_distances
from scdh.losses import quantization_loss
from scdh.metrics.scores import RankingScores
from scdh.model.hasher import Hasher
from scdh.nets.network import Network


class KeptOutputs:
    """Passes (rows [B], u [B, r]) batches on and, where they are needed to rank, keeps u.

    Args:
        hasher: its method decides whether u is kept.
        batches: real outputs of the queries.
        always: keep them for any method.
    """

    def __init__(self, hasher: Hasher, batches: Iterable[tuple[np.ndarray, np.ndarray]], always: bool = False) -> None:
        self.batches, self.keeps = batches, always or hasher.method.ranking != HAMMING
        self._pieces: list[np.ndarray] = []

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, u in self.batches:
            if self.keeps:
                self._pieces.append(u)
            yield rows, u

    @property
    def u(self) -> np.ndarray | None:
        """[q, r] of all batches; None where the codes alone rank."""
        return np.concatenate(self._pieces) if self._pieces else None


class MeasuredOutputs:
    """Passes (rows, u) batches on, and adds up l_q: how far real outputs are from the corners of the cube."""

    def __init__(self, batches: Iterable[tuple[np.ndarray, np.ndarray]], p: float) -> None:
        self.batches, self.p = batches, p
        self.total, self.count = 0.0, 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, u in self.batches:
            self.total += float(quantization_loss(torch.from_numpy(u), self.p)) * len(rows)
            self.count += len(rows)
            yield rows, u

    @property
    def l_q(self) -> float:
        return self.total / self.count


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
    """Score the database's ranking for each query.

    Args:
        hasher: the model that made the codes.
        queries: q codes.
        query_outputs: u [q, r] of the queries; only a method with a distance of its own needs them.
        query_labels: int [q] or multi-hot [q, C].
        database: n codes.
        database_labels: int [n] or multi-hot [n, C].
        network: the network that made the codes (default: the model's).
        radius: in bits; for Hamming distances only.
        options: further options of :func:`scdh.evaluate`.
    """
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
