"""Nested codes against one model per length: ``python -m research.nested cifar10.npz --seeds 3``.

The file has embeddings ``x`` [n, d] and labels ``y``, int [n] or multi-hot [n, C]. The nested model and the models of
each length have the same split, settings and number of steps. The queries are scored once, by the codes of the last
epoch. Nothing is chosen by these scores. Seconds are processor time of training.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scdh.cli.options import read_settings
from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.evaluation import evaluate
from scdh.experiments.pages.markdown import markdown_table
from scdh.model.hasher import Hasher
from scdh.training.plan import settled_plan
from scdh.training.run import run_plan

BITS = (12, 16, 24, 32, 48, 64, 128)
SETTINGS: dict[str, Any] = {
    "net.backbone": "features",
    "net.image_size": None,
    "net.freeze": False,
    "net.hidden": [256],
    "train.epochs": 20,
    "train.lr_trunk": 0.001,
    "train.augmentation": "none",
    "train.keep": "last",
    "train.validate_every": 1000,
    "data.validation_per_class": 100,
}
Row = dict[str, Any]


def run(source: ArraySource, seed: int, bits: Sequence[int], settings: Mapping[str, Any]) -> list[Row]:
    """One row per length and model: MAP of the queries, and seconds of training."""
    rows = []
    longest = max(bits)
    own = [(str(length), length, {}) for length in bits]
    # The nested model comes last, because the first one also waits for imports.
    for name, length, more in [*own, ("nested", longest, {"method.nested": sorted({*bits} - {longest})})]:
        given = {**SETTINGS, **settings, **more, "method.bits": length, "seed": seed}
        plan = settled_plan(load_config("cifar10-frozen", overrides=given), source)
        started = time.process_time()
        model = run_plan(plan, quiet=True)
        seconds = time.process_time() - started
        for first in bits if name == "nested" else [length]:
            score = _score(model, source, plan.protocol.query, plan.protocol.database, first)
            rows.append({"model": name, "bits": first, "seed": seed, "map": score, "seconds": seconds})
    return rows


def _score(model: Hasher, source: ArraySource, queries: np.ndarray, database: np.ndarray, bits: int) -> float:
    codes = [model.encode(source.features[rows]).truncate(bits) for rows in (queries, database)]
    return evaluate(codes[0], source.labels[queries], codes[1], source.labels[database]).map


def table(rows: Sequence[Row]) -> str:
    """Mean MAP over seeds per length, of own models and of the nested one, and the ratio of their seconds."""
    lines = []
    for bits in sorted({row["bits"] for row in rows}):
        own, nested = (
            [row["map"] for row in rows if row["bits"] == bits and (row["model"] == "nested") == is_nested]
            for is_nested in (False, True)
        )
        differences = [second - first for first, second in zip(own, nested, strict=True)]
        cells = [f"{statistics.fmean(values):.3f}" for values in (own, nested)]
        spread = f" ± {statistics.stdev(differences):.3f}" if len(differences) > 1 else ""
        lines.append([str(bits), *cells, f"{statistics.fmean(differences):+.3f}{spread}"])
    longest = max(row["bits"] for row in rows)
    seconds = {
        name: statistics.fmean(row["seconds"] for row in rows if (row["model"], row["bits"]) == (name, longest))
        for name in (str(longest), "nested")
    }
    ratio = f"Training takes {seconds['nested'] / seconds[str(longest)]:.2f} × the time of {longest} bits alone."
    return f"{markdown_table(['bits', 'own model', 'nested', 'difference'], lines)}\n\n{ratio}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--bits", type=int, nargs="+", default=BITS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all models")
    options = parser.parse_args(arguments)
    with np.load(options.file) as arrays:
        source = ArraySource(arrays["x"], arrays["y"])
    rows: list[Row] = []
    for seed in range(options.seeds):
        rows += run(source, seed, options.bits, read_settings(options.set))
        print(f"seed {seed}: {rows[-1]['seconds']:.1f} s", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
