"""Mean and deviation over seeds: ``python -m scdh.experiments.demo.seeds --data groceries --seeds 3``."""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scdh.evaluation import Scores
from scdh.experiments.compare.summary import average
from scdh.experiments.demo.scores import PRESETS, compare
from scdh.experiments.pages.markdown import markdown_table

COLUMNS = ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_10", "l_q")


def run_seeds(
    data: str,
    seeds: int = 3,
    bits: tuple[int, ...] = (16, 32),
    *,
    cache: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, np.ndarray]]:
    """Scores by method and name, one value per seed 0 … seeds−1; NaN where a method has no such score.

    A seed decides first weights, order, random crops and projections; also the split, where data come without one.
    """
    if cache is None:
        with tempfile.TemporaryDirectory() as scratch:
            return run_seeds(data, seeds, bits, cache=Path(scratch), overrides=overrides)
    table: dict[str, dict[str, np.ndarray]] = {}
    for seed in range(seeds):
        for entry in compare(data, bits, seed, cache=cache, overrides=overrides).entries:
            scores = entry.scores
            values = {"map": scores.map, "precision_at_10": float(scores.precision_at_k(10)), "l_q": entry.l_q}
            if isinstance(scores, Scores):
                values |= {name: getattr(scores, name) for name in COLUMNS[1:4]}
            line = table.setdefault(entry.name, {name: np.full(seeds, np.nan) for name in COLUMNS})
            for name, value in values.items():
                if value is not None:
                    line[name][seed] = value
    return table


def to_markdown(table: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Mean ± standard deviation (of the sample, n−1) as a table to paste."""
    rows = [[name, *(_format(values[column]) for column in COLUMNS)] for name, values in table.items()]
    return markdown_table(["method", *COLUMNS], rows)


def _format(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "–"
    mean, deviation = average(values.tolist())
    return f"{mean:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=list(PRESETS), default="groceries")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--cache", type=Path, default=None, help="folder that keeps the trunk's features")
    arguments = parser.parse_args()
    table = run_seeds(arguments.data, arguments.seeds, tuple(arguments.bits), cache=arguments.cache)
    print(f"{arguments.data}, mean ± standard deviation over {arguments.seeds} seeds\n\n{to_markdown(table)}")


if __name__ == "__main__":
    main()
