"""The same models on two databases, the photos they learned from and others: ``python -m benchmarks.other_database``.

Of the shop photos that are no queries, each of three splits takes 8 a class to learn from, 6 for validation and 9 as
queries; the rest is the other database. Learning rates are found on the first split and taken for all. Models of the
last epoch are compared: the best epoch is chosen by validation, which differs with the database.
"""

import argparse
from pathlib import Path

import numpy as np

from scdh.data.open import open_source
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.summary import average
from scdh.experiments.pages.markdown import markdown_table
from scdh.hasher import Hasher
from scdh.runs.features import cached_trunk_features
from scdh.runs.protocol import protocol_of

METHODS = ("cls_onehot", "cls_lsh", "greedyhash", "ssdh", "ninh", "scdh")
PHOTOS = {"data.source": "groceries", "data.label_column": "finegrained_cat"}
PARTS = (("train", 8), ("validation", 6), ("query", 9))  # of each class
NETWORK = {"net.hidden": [512], "net.dropout": 0.5}  # and steps, as in the comparison that this explains
STEPS = {"train.epochs": 60, "train.batch_size": 64, "train.epoch_steps": 8}


def write_splits(out: Path, splits: int) -> None:
    """``learned<n>.npz``, whose database are the training photos, and ``other<n>.npz``, which has another database."""
    photos = open_source("groceries", label_column="finegrained_cat")
    config = Grid(("itq",), (32,), (0,), settings=PHOTOS).config("itq", 32, 0, photos)
    split_of_photos = protocol_of(config, photos)
    rows = np.union1d(split_of_photos.train, split_of_photos.database)
    rows = np.setdiff1d(rows, split_of_photos.query)
    model = Hasher.build(config, photos.label_names, photos.multi_label, None)
    _, features = cached_trunk_features(model, photos, rows, folder=out / "features")
    y, names = photos.labels[rows], np.array(photos.label_names)
    for n in range(splits):
        rng, split = np.random.default_rng(n), np.full(len(rows), "database", "U10")
        for label in range(photos.num_classes):
            mine = rng.permutation(np.flatnonzero(y == label))
            for part, count in PARTS:
                split[mine[:count]], mine = part, mine[count:]
        for name, kept in (("learned", split != "database"), ("other", np.full(len(rows), True))):
            arrays = {"X": features[kept], "y": y[kept], "split": split[kept]}
            np.savez(out / f"{name}{n}.npz", **arrays, label_names=names)


def run(out: Path, splits: int) -> dict[str, dict[str, list[float]]]:
    """MAP of the last epoch's models: database → method → one for each split."""
    write_splits(out, splits)
    maps: dict[str, dict[str, list[float]]] = {"learned": {}, "other": {}}
    rates: dict[str, dict[str, float]] = {}
    for n in range(splits):
        for name, by_method in maps.items():
            file = str(out / f"{name}{n}.npz")
            settings = {"data.source": file, **NETWORK, **STEPS}
            grid = Grid(METHODS, (32,), (n,), settings=settings, method_settings=rates)
            results = compare_methods(grid, open_source(file), out / f"{name}{n}", notify=print)
            for method, found in results.tuned.items():
                rate = found.chosen["train.lr_head"]
                rates[method] = {"train.lr_head": rate, "train.lr_trunk": rate}
            for cell in results.cells:
                if cell.map_last is not None:
                    by_method.setdefault(cell.method, []).append(cell.map_last)
    return maps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/other-database"))
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    maps = run(options.out, options.splits)
    lines = []
    for method in METHODS:
        texts = [f"{mean:.3f} ± {std or 0:.3f}" for mean, std in (average(maps[name][method]) for name in maps)]
        lines.append([method, *texts])
    print(markdown_table(["method", "photos learned from", "other photos"], lines))


if __name__ == "__main__":
    main()
