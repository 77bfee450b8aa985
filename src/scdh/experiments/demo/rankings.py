"""SCDH against codes that learn nothing (LSH), codes that learn without labels (ITQ), and the float features.

All four see the same features of the same items; only what is made of them differs. The codes are those of a comparison
(:mod:`scdh.experiments.compare`) with one seed, so its runs can be resumed, evaluated and searched like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scdh.codes import Codes
from scdh.errors import ConfigError, TrainingError
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.grid import Cell, Grid
from scdh.experiments.demo.data import PRESETS, DemoData, open_demo_data
from scdh.experiments.demo.timing import Timings
from scdh.metrics.scores import RankingScores
from scdh.model.hasher import Hasher
from scdh.progress import track
from scdh.runs.floats import score_floats
from scdh.runs.scoring import ScoreOptions, score_run

LEARNED, BASELINES = "scdh", ("itq", "lsh")


@dataclass(frozen=True, eq=False)
class RankedCodes:
    """Codes of queries and database, their model, the seconds of its training, and l_q of the queries if it learned."""

    queries: Codes
    database: Codes
    hasher: Hasher
    seconds: float
    l_q: float | None


@dataclass(frozen=True, eq=False)
class Ranking:
    """The database ranked by Hamming distance of codes, or, where ``codes`` is None, by the cosine of float features.

    Args:
        method: its title, or the name of the features.
        bits: of a code; None for floats.
        bytes: of one item.
        scores: of all queries.
        codes: what is ranked.
    """

    method: str
    bits: int | None
    bytes: int
    scores: RankingScores
    codes: RankedCodes | None = None

    @property
    def name(self) -> str:
        return self.method if self.bits is None else f"{self.method} {self.bits} bits"


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


def learned_rankings(rankings: Sequence[Ranking]) -> list[tuple[int, Ranking, RankedCodes]]:
    """Bits, ranking and codes of every ranking by SCDH."""
    by_codes = [(ranking, ranking.codes) for ranking in rankings if ranking.codes is not None]
    return [(codes.queries.bits, ranking, codes) for ranking, codes in by_codes if codes.l_q is not None]


def longest_learned(rankings: Sequence[Ranking]) -> tuple[int, Ranking, RankedCodes]:
    """The one with the most bits."""
    return max(learned_rankings(rankings), key=lambda learned: learned[0])


def _rank_by_codes(data: DemoData, cell: Cell, runner: CellRunner) -> Ranking:
    run = runner.run_of(cell)
    if (failure := next((result.failed for result in runner.results(cell)), None)) is not None:
        raise TrainingError(f"{cell.name} failed: {failure}")
    options, hasher = ScoreOptions(label_column=data.label_column), run.load_model()
    outputs = data.features.hash_outputs
    scored = score_run(run, "query", options, source=data.source, hasher=hasher, hash_outputs=outputs)
    (result,) = runner.results(cell)
    queries, database = (Codes.load(run.codes(part)) for part in ("query", "database"))
    l_q = scored.l_q if hasher.method.learns_by_gradient else None
    codes = RankedCodes(queries, database, hasher, result.seconds or 0.0, l_q)
    return Ranking(result.title, cell.bits, int(queries.packed.shape[1]), scored.scores, codes)


def _rank_by_floats(data: DemoData) -> Ranking:
    options, protocol = ScoreOptions(label_column=data.label_column), data.protocol
    floats = score_floats(data.source, protocol.query, protocol.database, data.features_of_rows, options)
    return Ranking(floats.name, None, floats.bytes, floats.scores)
