"""SCDH against codes that learn nothing (LSH), codes that learn without labels (ITQ), and the float features.

All four see the same features of the same items; only what is made of them differs. The codes are those of a comparison
(:mod:`scdh.experiments.compare`) with one seed, so its runs can be resumed, evaluated and searched like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.codes import Codes
from scdh.errors import ConfigError, TrainingError
from scdh.evaluation import RankingScores, Scores
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.grid import Cell, Grid
from scdh.experiments.compare.results import CellResult
from scdh.experiments.demo.data import PRESETS, DemoData, open_demo_data
from scdh.experiments.demo.timing import Timings
from scdh.hasher import Hasher
from scdh.losses import quantization_loss
from scdh.progress import track
from scdh.runs.floats import FloatScores, score_floats
from scdh.runs.scoring import ScoreOptions, score_run

LEARNED, BASELINES = "scdh", ("itq", "lsh")


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """The model of a ranking, u float32 [q, r] of the queries, and how far these are from ±1 (l_q)."""

    hasher: Hasher
    u: np.ndarray
    l_q: float


@dataclass(frozen=True, eq=False)
class CodeRanking:
    """The database ranked by Hamming distance of codes; ``learned`` is None for methods that are fitted."""

    cell: CellResult
    scores: Scores
    queries: Codes
    database: Codes
    learned: LearnedModel | None

    @property
    def method(self) -> str:
        return self.cell.title

    @property
    def bits(self) -> int:
        return self.cell.bits

    @property
    def bytes(self) -> int:
        """Of one item."""
        return int(self.queries.packed.shape[1])

    @property
    def name(self) -> str:
        return f"{self.method} {self.bits} bits"

    @property
    def average_precisions(self) -> np.ndarray:
        """float64 [q]."""
        return self.scores.per_query["ap"]


@dataclass(frozen=True, eq=False)
class FloatRanking:
    """The database ranked by the cosine of float features."""

    floats: FloatScores

    @property
    def scores(self) -> RankingScores:
        return self.floats.scores

    @property
    def method(self) -> str:
        return self.floats.name

    @property
    def bits(self) -> None:
        return None

    @property
    def bytes(self) -> int:
        """Of one item."""
        return self.floats.bytes

    @property
    def name(self) -> str:
        return self.method

    @property
    def average_precisions(self) -> np.ndarray:
        """float64 [q]."""
        return self.scores.per_query["ap"]


Ranking = CodeRanking | FloatRanking


def compare_rankings(
    data: str,
    bits: Sequence[int],
    seed: int,
    out: Path,
    *,
    cache: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    timings: Timings | None = None,
) -> tuple[DemoData, list[Ranking]]:
    """Train, fit and score all rankings of a demo; what an earlier call left in ``out`` is not trained again.

    Args:
        data: "groceries" or "digits".
        bits: lengths of codes.
        seed: decides first weights, order, random crops and projections; also the split, where data come without one.
        out: runs go into ``out/cells``.
        cache: folder that keeps the features of photos; None takes ``out/features``.
        overrides: settings over the preset, by dotted key.
        timings: receives the time of each part.

    Returns:
        The data, and the rankings: SCDH, ITQ and LSH by rising bits, then the floats.

    Raises:
        ConfigError: if there is no such demo, or a code has no bits.
        TrainingError: if a method cannot be trained or fitted, such as ITQ with more bits than features.
    """
    if not bits or min(bits) < 1:
        raise ConfigError(f"The codes need at least 1 bit, got {list(bits)}.")
    timings, cache = timings or Timings(), cache or out / "features"
    with timings.measure("features"):
        demo_data = open_demo_data(data, seed, cache, overrides)
    grid = Grid((LEARNED, *BASELINES), tuple(sorted(set(bits))), (seed,), PRESETS[data], None, overrides)
    cells = sorted(grid.check().cells(demo_data.source), key=lambda cell: grid.methods.index(cell.method))
    runner = CellRunner(demo_data.source, out, cache=cache)
    rankings: list[Ranking] = []
    for cell in track(cells, len(cells), "runs", "runs"):
        is_learned = cell.method == LEARNED
        with timings.measure(f"training {cell.bits} bits" if is_learned else "codes and scores"):
            runner.train(cell, wait=True)
        with timings.measure("codes and scores"):
            rankings.append(_rank_by_codes(demo_data, cell, runner))
    with timings.measure("codes and scores"):
        rankings.append(_rank_by_floats(demo_data))
    return demo_data, rankings


def longest_learned(rankings: Sequence[Ranking]) -> tuple[CodeRanking, LearnedModel]:
    """The ranking by SCDH with the most bits, and its model."""
    learned = [(r, r.learned) for r in rankings if isinstance(r, CodeRanking) and r.learned is not None]
    return max(learned, key=lambda pair: pair[0].bits)


def _rank_by_codes(data: DemoData, cell: Cell, runner: CellRunner) -> CodeRanking:
    run = runner.run_of(cell)
    if (failure := next((result.failed for result in runner.results(cell)), None)) is not None:
        raise TrainingError(f"{cell.name} failed: {failure}")
    options, hasher = ScoreOptions(label_column=data.label_column), run.load_model()
    scores = score_run(run, "query", options, source=data.source, hasher=hasher, hash_outputs=data.hash_outputs).scores
    learned = _learned_model(data, hasher) if hasher.method.learns_by_gradient else None
    (result,) = runner.results(cell)
    queries, database = (Codes.load(run.codes(part)) for part in ("query", "database"))
    assert isinstance(scores, Scores)  # the methods of the demo rank by Hamming distance
    return CodeRanking(result, scores, queries, database, learned)


def _learned_model(data: DemoData, hasher: Hasher) -> LearnedModel:
    u = data.outputs(hasher, data.query_features)
    return LearnedModel(hasher, u, float(quantization_loss(torch.from_numpy(u))))


def _rank_by_floats(data: DemoData) -> FloatRanking:
    options, protocol = ScoreOptions(label_column=data.label_column), data.protocol
    return FloatRanking(score_floats(data.source, protocol.query, protocol.database, data.features_of_rows, options))
