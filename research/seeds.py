"""The demo's scores, mean and deviation over seeds: ``python -m research.seeds --data groceries --seeds 3``."""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scdh.experiments.compare.summary import average
from scdh.experiments.demo.data import PRESETS
from scdh.experiments.demo.rankings import Ranking, compare_rankings
from scdh.experiments.demo.results import score_row
from scdh.experiments.pages.markdown import markdown_table

COLUMNS = ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_10", "l_q")
SeedScores = dict[str, dict[str, list[float | None]]]


def run_seeds(
    data: str,
    seeds: int = 3,
    bits: Sequence[int] = (16, 32),
    *,
    out: Path | None = None,
    cache: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> SeedScores:
    """Scores of the demo with seeds 0 … seeds − 1.

    Args:
        data: "groceries" or "digits".
        seeds: how many.
        bits: lengths of codes.
        out: folder that keeps the runs, so that a second call goes on where the first was stopped; None: they are
            deleted at the end.
        cache: folder that keeps the features of photos; None takes ``out/features``.
        overrides: settings over the preset, by dotted key.

    Returns:
        By ranking and score (``COLUMNS``): one value per seed; None where a ranking has no such score.
    """
    if out is None:
        with tempfile.TemporaryDirectory() as scratch:
            return run_seeds(data, seeds, bits, out=Path(scratch), cache=cache, overrides=overrides)
    table: SeedScores = {}
    for seed in range(seeds):
        _, rankings = compare_rankings(data, bits, seed, out, cache=cache, overrides=overrides)
        for ranking in rankings:
            columns = table.setdefault(ranking.name, {column: [] for column in COLUMNS})
            for column, value in _scores(ranking).items():
                columns[column].append(value)
    return table


def to_markdown(table: Mapping[str, Mapping[str, Sequence[float | None]]]) -> str:
    """Mean ± standard deviation (of the sample, n − 1) as a table to paste."""
    rows = [[name, *(_format(values[column]) for column in COLUMNS)] for name, values in table.items()]
    return markdown_table(["method", *COLUMNS], rows)


def _scores(ranking: Ranking) -> dict[str, float | None]:
    row = score_row(ranking)
    scores = {column: getattr(row, column) for column in COLUMNS if column != "l_q"}
    return {**scores, "l_q": None if ranking.codes is None else ranking.codes.l_q}


def _format(values: Sequence[float | None]) -> str:
    if None in values:
        return "–"
    mean, deviation = average(values)
    return f"{mean:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=list(PRESETS), default="groceries")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32])
    parser.add_argument(
        "--out", type=Path, default=None, help="folder for the runs (default: they are deleted at the end)"
    )
    parser.add_argument("--cache", type=Path, default=None, help="folder that keeps the trunk's features")
    options = parser.parse_args()
    table = run_seeds(options.data, options.seeds, options.bits, out=options.out, cache=options.cache)
    print(f"{options.data}, mean ± standard deviation over {options.seeds} seeds\n\n{to_markdown(table)}")


if __name__ == "__main__":
    main()
