"""MT-SCDH against SCDH as labels become fewer: ``python -m research.few_labels --cifar10 FOLDER --mirflickr FILE``.

A few rows of each class have labels, all other training rows have none. Both methods have the same settings, those of
the preset, and the same number of steps; MT-SCDH has its defaults. The last epoch's codes are scored on queries, once.
Runs can be stopped and resumed. Digits and shop photos come with packages, the other two data sets are given by path.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from scdh.config import load_config
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.tables import format_score
from scdh.runs.protocol import source_of
from scdh.storage.files import replacing

LABELS = (5, 10, 20, 50)
METHODS = ("scdh", "mt_scdh")
STEPS: dict[str, Any] = {"train.epoch_steps": 100, "train.epochs": 20, "data.validation_per_class": 0}
FROZEN: dict[str, Any] = {"net.image_size": 96, "net.hidden": [512], "net.dropout": 0.5, "train.lr_head": 0.001}
DATA: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("demo-digits", {}),
    "groceries": ("demo-groceries", {**FROZEN, "data.label_column": "finegrained_cat", "net.image_size": 128}),
    "cifar10": ("cifar10-frozen", FROZEN),
    "mirflickr": (
        "cifar10-frozen",
        {**FROZEN, "data.label_column": "labels", "data.train_per_class": None, "net.views": 3, "method.form": "own"},
    ),
}
COLOURS = {"SCDH": "#2f7de1", "MT-SCDH": "#d64545"}


def run(
    data: str, out: Path, seeds: tuple[int, ...], labels: tuple[int, ...] = LABELS, path: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """One row for each number of labels and method, as :mod:`scdh.experiments.compare.summary` gives them."""
    preset, settings = DATA[data]
    settings = {**settings, **(path or {})}
    rows = []
    for count in labels:
        chosen = {**STEPS, **settings, "data.labelled_per_class": count}
        grid = Grid(METHODS, (32,), seeds, preset, None, chosen)
        source = source_of(load_config(preset, overrides=settings))
        place = out / data / f"{count}-labels"
        results = compare_methods(grid, source, place, cache=out / data / "features", notify=print)
        for row in results.rows:
            rows.append({"data": data, "labels": count, "labelled": results.data.train, **row.model_dump()})
            score = format_score(row, "map")
            print(f"{data:9} {count:3} labels per class  {row.title:18} MAP {score}", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """MAP over the number of labels, one panel per data set."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure = Figure(figsize=(4.6 * len(names), 3.5), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for title, colour in COLOURS.items():
            line = [row for row in rows if (row["data"], row["title"]) == (name, title)]
            means, spread = [row["map"] for row in line], [row["map_std"] or 0.0 for row in line]
            counts = [row["labels"] for row in line]
            axes.errorbar(counts, means, spread, color=colour, lw=2, marker="o", ms=4, capsize=3, label=title)
        axes.set(xscale="log", title=name, xlabel="labels per class", ylabel="MAP, 32 bits")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=["digits", "groceries"])
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS)
    parser.add_argument("--cifar10", help="folder with CIFAR-10's binary files")
    parser.add_argument("--mirflickr", help="table of MIRFLICKR's photos and labels")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/few-labels"))
    parser.add_argument("--plot", type=Path, help="draw the curves into this .png file")
    options = parser.parse_args()
    paths: dict[str, dict[str, Any]] = {}
    if options.cifar10:
        paths["cifar10"] = {"data.root": options.cifar10}
    if options.mirflickr:
        paths["mirflickr"] = {"data.source": options.mirflickr}
    seeds, rows = tuple(range(options.seeds)), []
    for data in dict.fromkeys([*options.data, *paths]):
        rows += run(data, options.out, seeds, tuple(options.labels), paths.get(data))
    with replacing(options.out / "few_labels.json") as temporary:
        temporary.write_text(json.dumps(rows, indent=1), "utf-8")
    if options.plot is not None:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
