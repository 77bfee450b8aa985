"""Mean and deviation over seeds: ``python -m scdh.experiments.demo.seeds --data groceries --seeds 3``."""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scdh.evaluation import Scores
from scdh.experiments.demo.scores import PRESETS, compare

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


def as_markdown(table: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Mean ± standard deviation (of the sample, n−1) as a table to paste."""
    lines = ["| method | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, values in table.items():
        lines.append(f"| {name} | " + " | ".join(_words(values[column]) for column in COLUMNS) + " |")
    return "\n".join(lines)


def _words(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "–"
    return f"{values.mean():.3f}" + (f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=list(PRESETS), default="groceries")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--cache", type=Path, default=None, help="folder that keeps the trunk's features")
    given = parser.parse_args()
    table = run_seeds(given.data, given.seeds, tuple(given.bits), cache=given.cache)
    print(f"{given.data}, mean ± standard deviation over {given.seeds} seeds\n\n{as_markdown(table)}")


if __name__ == "__main__":
    main()
