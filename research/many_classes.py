"""SCDH with very many classes: quality, and what a step costs.

``python -m research.many_classes scores RESULTS.jsonl`` trains on made-up embeddings and prints the table;
``--embeddings FILE.npz`` adds real ones (x float [n, d], y int [n]). Runs that the file has are not repeated.
``python -m research.many_classes costs PICTURE.png`` measures steps and draws the curve.

A made-up class has two training rows x = m + σ e. "nuisance": m and e have power-law spectra (exponents ½ and 1) along
different axes, so labels teach which directions matter. "mild": both have the exponent ½. "alike": both are spherical,
so labels teach nothing. Some classes are new: their two rows are searched too, but do not train. Each query is another
row of a class. Learning rates are chosen with seed 0 by validation rows, which are further rows of the trained classes;
queries are scored once.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.batches.batch import Batch
from scdh.data.protocol import Protocol
from scdh.evaluation import evaluate
from scdh.experiments.pages.markdown import markdown_table
from scdh.methods.base import Moment
from scdh.methods.registry import make_method
from scdh.metrics.cosine import cosine_distances
from scdh.nets.network import Network
from scdh.nets.small import FeatureTrunk
from scdh.training.optim import build_optimiser
from scdh.training.plan import settled_plan
from scdh.training.row_adamw import clipped_parameters
from scdh.training.run import run_plan
from scdh.training.teacher import MovingAverage

WIDTH, NEW_CLASSES, JUDGED = 128, 1000, 1000
# Exponents of m and e, and the σ with which floats have a MAP of about 0.22 among 20,000 classes.
KINDS = {"nuisance": (0.5, 1.0, 1.4), "mild": (0.5, 0.5, 1.55), "alike": (0.0, 0.0, 1.65)}
RATES = (0.001, 0.003)
COMMON: dict[str, Any] = {
    "net.backbone": "features",
    "net.image_size": None,
    "net.freeze": False,
    "net.standardise": True,
    "train.optimiser": "adamw",
    "train.weight_decay": 0.01,
    "train.schedule": "cosine",
    "train.lr_warm_up": 1,
    "train.batch_size": 256,
    "train.augmentation": "none",
    "train.keep": "last",
    "train.validate_every": 1000,
    "train.validation_database": "train",
}
HIDDEN = {"net.hidden": [512], "net.dropout": 0.2}
SAMPLED = {"method.sampled": 1000, "method.mu": 0.0, "method.alpha": 0.5}
WARM_UP = {"method.warm_up_epochs": 1, "method.warm_up_norm": 4.0}
START = {"method.start": "classes", "net.hidden": []}
METHODS: dict[str, dict[str, Any]] = {
    "ITQ": {"method.name": "itq"},
    "SCDH": {"method.alpha": 0.5, **HIDDEN, **WARM_UP},
    "SCDH, sampled": {**SAMPLED, **HIDDEN, **WARM_UP},
    "SCDH, start": {"method.mu": 0.0, "method.alpha": 0.5, **START},
    "SCDH, sampled, start": {**SAMPLED, **START},
    "SCDH, sampled, start, hidden": {**SAMPLED, **START, **HIDDEN},
}
Row = dict[str, Any]


def made_up(kind: str, classes: int, seed: int, rows: int = 2) -> tuple[ArraySource, Protocol, np.ndarray]:
    """Embeddings, their parts, and the queries of new classes."""
    rng = np.random.default_rng(seed)
    *exponents, sigma = KINDS[kind]
    mixing = []
    for exponent in exponents:
        spectrum = np.arange(1, WIDTH + 1) ** -exponent
        axes = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
        mixing.append(axes * np.sqrt(spectrum / spectrum.mean()) @ axes.T)
    means = rng.normal(size=(classes + NEW_CLASSES, WIDTH)) @ mixing[0]
    known = rng.permutation(classes)
    new = np.arange(classes, classes + NEW_CLASSES)
    parts = [np.repeat(np.arange(classes), rows), np.repeat(new, rows), known[:JUDGED], known[-JUDGED:], new]
    y = np.concatenate(parts)
    x = (means[y] + sigma * rng.normal(size=(len(y), WIDTH)) @ mixing[1]).astype(np.float32)
    ends = np.cumsum([0, *map(len, parts)])
    train, searched, validation, query, new_query = (np.arange(a, b) for a, b in pairwise(ends))
    database = np.concatenate([train, searched])
    source = ArraySource(x, y, name=f"{kind}, {classes:,} classes")
    return source, Protocol(source.name, seed, train, query, database, validation), new_query


def real(file: Path, seed: int) -> tuple[ArraySource, Protocol, np.ndarray]:
    """Of each class 20 rows train, 5 validate and 10 are queries, drawn by seed."""
    with np.load(file) as arrays:
        source = ArraySource(arrays["x"], arrays["y"], name=file.stem)
    order = np.random.default_rng(seed).permutation(len(source.labels))
    order = order[np.argsort(source.labels[order], kind="stable")]
    place = np.concatenate([np.arange(count) for count in np.bincount(source.labels)])
    train, validation, query = (order[(place >= a) & (place < b)] for a, b in pairwise((0, 20, 25, 35)))
    return source, Protocol(source.name, seed, train, query, train, validation), np.empty(0, np.int64)


def scored(
    data: tuple[ArraySource, Protocol, np.ndarray], name: str, bits: int, epochs: int, rate: float, seed: int
) -> Row:
    """MAP of a method with one learning rate: of validation rows, of queries and of queries of new classes."""
    source, protocol, new_query = data
    x, y, base = source.features, source.labels, protocol.database
    parts = {"validation": protocol.validation, "map": protocol.query, "new": new_query}
    started = time.process_time()
    if name == "floats":
        scores = {part: float_map(x[rows], y[rows], x[base], y[base]) for part, rows in parts.items() if len(rows)}
    else:
        rates = {"train.lr_head": rate, "train.lr_trunk": rate}
        own = {**COMMON, **rates, "train.epochs": epochs, "seed": seed, "method.bits": bits, **METHODS[name]}
        plan = settled_plan(load_config(overrides=own), source, protocol)
        model = run_plan(plan, quiet=True)
        codes = model.encode(x[base], batch_size=4096)
        scores = {
            part: evaluate(model.encode(x[rows], batch_size=4096), y[rows], codes, y[base]).map
            for part, rows in parts.items()
            if len(rows)
        }
    setting = {"bits": bits, "epochs": epochs, "rate": rate, "seed": seed}
    seconds = round(time.process_time() - started, 1)
    return {"data": source.name, "method": name, **setting, **scores, "s": seconds}


def float_map(queries: np.ndarray, labels: np.ndarray, items: np.ndarray, item_labels: np.ndarray) -> float:
    """MAP of cosine distances, which have no ties: counting nearer items is faster than sorting all of them."""
    distances_of, values = cosine_distances(queries, items), []
    for start in range(0, len(queries), 100):
        for distances, label in zip(distances_of(slice(start, start + 100)), labels[start:], strict=False):
            ranks = np.sort([(distances <= near).sum() for near in distances[item_labels == label]])
            values.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
    return float(np.mean(values))


def compare(data_of: Any, names: Sequence[str], bits: int, epochs: int, seeds: int, results: Path) -> None:
    """Run what ``results`` lacks: both rates with seed 0, and the better one by validation rows with the others."""
    for seed in range(seeds):
        data = data_of(seed)
        for name in names:
            rates = RATES if name.startswith("SCDH") else RATES[:1]
            kept = [row for row in read(results) if _cell(row) == (data[0].name, name, bits, epochs)]
            if seed:
                rates = (best_rate(kept),)
            for rate in rates:
                if not any((row["rate"], row["seed"]) == (rate, seed) for row in kept):
                    row = scored(data, name, bits, epochs, rate, seed)
                    print(row, flush=True)
                    with results.open("a") as file:
                        file.write(json.dumps(row) + "\n")


def _cell(row: Row) -> tuple[str, str, int, int]:
    return row["data"], row["method"], row["bits"], row["epochs"]


def read(results: Path) -> list[Row]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def best_rate(rows: Sequence[Row]) -> float:
    return float(max((row for row in rows if row["seed"] == 0), key=lambda row: row["validation"])["rate"])


def table(rows: Sequence[Row]) -> str:
    """Mean ± deviation over seeds of the queries' MAP, with the rate that validation rows chose."""
    lines = []
    for cell in dict.fromkeys(map(_cell, rows)):
        own = [row for row in rows if _cell(row) == cell]
        own = [row for row in own if row["rate"] == best_rate(own)]
        cells = [_mean([row[part] for row in own if part in row]) for part in ("map", "new")]
        lines.append([*map(str, cell), *cells, str(len(own)), f"{statistics.fmean(row['s'] for row in own):.0f}"])
    return markdown_table(
        ["data", "method", "bits", "epochs", "queries", "queries of new classes", "seeds", "s"], lines
    )


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def step_cost(classes: int, sampled: int | None, steps: int) -> Row:
    """Processor seconds of a step and the memory it needs beyond weights and optimiser, in MB: loss, gradient,
    clipping, AdamW, warm-up and moving average, as in the training loop, with 512 features and batches of 256.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    own = {"warm_up_epochs": 1, "mu": 0.0, "sampled": sampled}
    config = load_config(overrides={"train.optimiser": "adamw", "method.bits": 64})
    net: Network = Network(FeatureTrunk(512, []), 512, 64)
    method = make_method("scdh", own, 64, classes, False)
    method.build(net)
    average, optimiser = MovingAverage(net, 0.99), build_optimiser(net, method, config.train)
    seconds = []
    for step in range(steps + 1):
        batch = Batch(torch.randn(256, 512), torch.randint(classes, (256,)), torch.arange(256))
        started = time.process_time()
        optimiser.zero_grad(set_to_none=True)
        method.step(net, batch)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(clipped_parameters(net.parameters()), 5.0)
        optimiser.step()
        method.after_step(net, Moment())
        average.update(net)
        seconds.append(time.process_time() - started)
        if not step:  # which made the optimiser's state
            before = _resident()
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    del seconds[0]
    return {"classes": classes, "sampled": sampled, "s": statistics.median(seconds), "mb": _peak() - before}


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


def costs(picture: Path, all_classes: Sequence[int], sampled_classes: Sequence[int], sampled: int) -> list[Row]:
    """Each point in a process of its own, which shares no memory with the others."""
    points = [(count, None, 1 if count >= 100_000 else 3) for count in all_classes]
    points += [(count, sampled, 20) for count in sampled_classes]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        rows = pool.starmap(step_cost, points, chunksize=1)
    print(markdown_table(["classes", "sampled", "s", "MB"], [_cost_line(row) for row in rows]))
    draw(rows, picture)
    return rows


def _cost_line(row: Row) -> list[str]:
    return [f"{row['classes']:,}", str(row["sampled"] or "all"), f"{row['s']:.3f}", f"{row['mb']:,.0f}"]


def draw(rows: Sequence[Row], picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for axis, key, label in zip(axes, ("s", "mb"), ("s of processor per step", "MB beyond weights"), strict=True):
        for is_sampled, name in ((False, "all centres"), (True, "sampled")):
            own = [row for row in rows if (row["sampled"] is not None) == is_sampled]
            axis.plot([row["classes"] for row in own], [max(row[key], 1e-3) for row in own], "o-", label=name)
        axis.set(xscale="log", yscale="log", xlabel="classes", ylabel=label)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(picture, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["scores", "costs"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--kind", choices=list(KINDS), default="nuisance")
    parser.add_argument("--classes", type=int, nargs="*", default=[20_000])
    parser.add_argument("--rows", type=int, default=2, help="training rows per class")
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--methods", nargs="+", choices=["floats", *METHODS], default=["floats", *METHODS])
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sampled", type=int, default=1000, help="of costs")
    options = parser.parse_args(arguments)
    if options.what == "costs":
        few = [count for count in options.classes if count <= 100_000]
        costs(options.file, few, options.classes, options.sampled)
        return
    chosen = (options.methods, options.bits, options.epochs, options.seeds, options.file)
    for count in options.classes:
        compare(lambda seed, n=count: made_up(options.kind, n, seed, options.rows), *chosen)
    if options.embeddings is not None:
        compare(lambda seed: real(options.embeddings, seed), *chosen)
    print(table(read(options.file)))


if __name__ == "__main__":
    main()
