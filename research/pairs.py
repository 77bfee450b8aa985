"""Training from pairs against training from labels: ``python -m research.pairs cifar10.npz --out pairs.json``.

The file has embeddings ``x`` [n, d], labels ``y`` (int [n] or multi-hot [n, C]) and ``part`` [n] ("train", "test", or
"" for rows that are only searched, as the training rows are too). Each training row is paired with random training
rows; a pair is similar with probability ½. A share of the answers is then reversed. SCDH learns from clusters of the
pairs, DPSH and HashNet from the same pairs directly, and SCDH with all labels is the limit. Settings are those of
``scdh train`` without trials. The queries are scored once, by the codes of the last epoch. Results are added to
``--out``; a run that was stopped goes on.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.pairs import pairs_of
from scdh.evaluation import evaluate
from scdh.experiments.pages.markdown import markdown_table
from scdh.storage.files import replacing
from scdh.training.plan import plan_run
from scdh.training.run import run_plan

METHODS = {"scdh": "SCDH", "dpsh": "DPSH", "hashnet": "HashNet"}
LABELS = "labels"  # in place of a number of pairs: SCDH with all labels
Row = dict[str, Any]


def draw_pairs(labels: np.ndarray, rows: np.ndarray, per_item: int, wrong: float, seed: int) -> list[tuple[Any, ...]]:
    """(row, row, similar): ``per_item`` partners of each of ``rows``, half of them similar; a share is reversed."""
    rng, y = np.random.default_rng([seed, per_item]), labels[rows]

    def alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return y[a] == y[b] if y.ndim == 1 else (y[a] & y[b]).any(axis=1)

    a = np.repeat(np.arange(len(rows)), per_item)
    b, wanted = rng.integers(0, len(rows), len(a)), rng.random(len(a)) < 0.5
    for _ in range(1000):  # a row with every label, or with one of its own, keeps another answer
        open_ones = np.flatnonzero((a == b) | (alike(a, b) != wanted))
        b[open_ones] = rng.integers(0, len(rows), len(open_ones))
    b = np.where(a == b, (b + 1) % len(rows), b)
    similar = alike(a, b) ^ (rng.random(len(a)) < wrong)
    return list(zip(rows[a].tolist(), rows[b].tolist(), similar.astype(int).tolist(), strict=True))


def run(data: ArraySource, method: str, bits: int, pairs: Any, wrong: float, seed: int, slower: int) -> Row:
    """MAP of the queries after training on pairs (``pairs`` per item) or on labels; pairwise methods train longer."""
    source = ArraySource(data.features, data.labels, name=data.name, split=data.split)
    if pairs != LABELS:
        rows = np.flatnonzero(np.asarray(data.split) == "train")
        source.pairs = pairs_of(draw_pairs(data.labels, rows, pairs, wrong, seed), source)
    given = {"method.name": method, "method.bits": bits, "seed": seed, "net.hidden": [256], "train.keep": "last"}
    given |= {"data.source": data.name, "train.validate_every": 1000}
    started = time.process_time()
    plan = plan_run(load_config(overrides=given), trials=False, source=source)
    prepared = time.process_time()
    if method != "scdh":
        longer = {"train.epochs": plan.choices.final().train.epochs * slower}
        plan = plan_run(load_config(overrides={**given, **longer}), trials=False, source=source)
    model = run_plan(plan, quiet=True)
    ended = time.process_time()
    parts = plan.protocol.query, plan.protocol.database
    codes = [model.encode(data.features[rows]) for rows in parts]
    score = evaluate(codes[0], data.labels[parts[0]], codes[1], data.labels[parts[1]]).map
    shown = {"method": method, "pairs": pairs, "wrong": wrong, "seed": seed, "map": score}
    return {**shown, "clusters": len(model.label_names), "clustering": prepared - started, "training": ended - prepared}


def table(rows: Sequence[Row]) -> str:
    """Mean MAP over seeds ± standard deviation: a line per number of pairs, a column per method and share of errors."""
    columns = list(itertools.product(METHODS, sorted({row["wrong"] for row in rows if row["pairs"] != LABELS})))
    counts = sorted({row["pairs"] for row in rows if row["pairs"] != LABELS})
    lines = [
        [str(count), *(_mean(rows, pairs=count, method=method, wrong=wrong) for method, wrong in columns)]
        for count in counts
    ]
    head = ["pairs per item", *(f"{METHODS[method]}, {wrong:.0%} wrong" for method, wrong in columns)]
    return f"{markdown_table(head, lines)}\n\nSCDH with all labels: {_mean(rows, pairs=LABELS)}."


def _mean(rows: Sequence[Row], **of: Any) -> str:
    values = [row["map"] for row in rows if all(row[key] == value for key, value in of.items())]
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}" if values else ""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1, 2, 5, 10, 20], help="per item")
    parser.add_argument("--wrong", type=float, nargs="+", default=[0.0, 0.05], help="shares of wrong pairs")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--slower", type=int, default=3, help="times as many epochs for the pairwise methods")
    parser.add_argument("--out", type=Path, default=Path("pairs.json"))
    options = parser.parse_args(arguments)
    with np.load(options.file) as arrays:
        data = ArraySource(arrays["x"], arrays["y"], name=options.file.name, split=arrays["part"])
    rows: list[Row] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else []
    done = {(row["method"], row["pairs"], row["wrong"], row["seed"]) for row in rows}
    for seed in options.seeds:
        cells = [("scdh", LABELS, 0.0), *itertools.product(options.methods, options.pairs, options.wrong)]
        for cell in cells:
            if (*cell, seed) not in done:
                rows.append(run(data, cell[0], options.bits, *cell[1:], seed, options.slower))
                print(rows[-1], flush=True)
                with replacing(options.out) as temporary:
                    temporary.write_text(json.dumps(rows, indent=1), "utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
