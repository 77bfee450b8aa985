"""Defaults alone against the best of a grid: ``python -m research.defaults digits groceries photos/``.

For each data set: a plain run (``--no-trials``), the run that ``scdh train`` makes, and 30 runs with every combination
of learning rate, length and α. The best of the 30 is taken by validation MAP. Queries are scored once each, after the
grid is complete: for the plain run, the default run and the best of the grid, with the floats behind the codes next
to them. Runs can be stopped and started again: a finished one is not repeated.
"""

import argparse
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdh.cli.options import read_settings
from scdh.config import RunConfig, load_config
from scdh.data.source import Source
from scdh.runs.folder import RunFolder
from scdh.runs.scoring import score_run
from scdh.storage.files import replacing
from scdh.training.plan import plan_run, settled_plan
from scdh.training.run import run_plan

RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)
LENGTHS = (0.5, 1.0, 3.0)  # times the usual number of epochs
ALPHAS = (0.3, 3.0)
POINTS = tuple(itertools.product(RATES, LENGTHS, ALPHAS))


def run(data: str, settings: Mapping[str, Any], out: Path, bits: int = 32, seed: int = 0) -> dict[str, Any]:
    """Everything measured on one data set.

    Args:
        data: as ``scdh train --data`` takes it.
        settings: further settings of all runs, by dotted key.
        out: folder of the runs.
        bits: length of the codes.
        seed: decides split, first weights and order.
    """
    given = {"data.source": data, "method.bits": bits, "seed": seed, **settings}
    cache = out / "features"
    usual = plan_run(load_config(overrides=given), trials=False)
    source = usual.source
    print(f"{data}: {usual.protocol.counts}", flush=True)
    seconds = {"plain": _train_into(out / "plain", usual.config, source, cache)}
    seconds["default"] = _train_by_trials(out / "default", given, source, cache)
    chosen = _search_grid(out, usual.config, source, cache)
    _train_into(out / "best_of_grid", _at_point(usual.config, chosen["best"]), source, cache)
    row: dict[str, Any] = {"data": data, "counts": usual.protocol.counts, "seconds": seconds, "grid": chosen}
    for name in ("plain", "default", "best_of_grid"):
        scores = score_run(RunFolder(out / name), source=source, floats=True)
        row[name] = {"map": scores.scores.map, "l_q": scores.l_q}
        row["floats"] = None if scores.floats is None else scores.floats.to_dict()["map"]
    row["found"] = _found(out / "default")
    return row


def _at_point(usual: RunConfig, point: tuple[float, float, float]) -> RunConfig:
    rate, length, alpha = point
    values: dict[str, Any] = {"train.lr_head": rate, "train.epochs": max(1, round(length * usual.train.epochs))}
    if usual.net.backbone == "features":  # the hidden layers over embeddings are the trunk
        values["train.lr_trunk"] = rate
    return usual.with_values({**values, "method.alpha": alpha})


def _search_grid(out: Path, usual: RunConfig, source: Source, cache: Path) -> dict[str, Any]:
    """Validation MAP of the best epoch at every point, and the best point."""
    path = out / "grid.json"
    scores: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    for count, point in enumerate(POINTS, 1):
        key = json.dumps(point)
        if key not in scores:
            model = run_plan(settled_plan(_at_point(usual, point), source), feature_cache=cache, quiet=True)
            scores[key] = model.info["validation_map"]
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(scores, indent=1))
            print(f"  {count}/{len(POINTS)} rate, length, α {point}: validation MAP {scores[key]:.4f}", flush=True)
    best = max(POINTS, key=lambda point: scores[json.dumps(point)])
    return {"best": best, "validation_map": scores[json.dumps(best)]}


def _train_into(folder: Path, config: RunConfig, source: Source, cache: Path) -> float:
    """Seconds, also those of a run that was finished before."""
    file = folder / "seconds.json"
    if not file.exists():
        started = time.perf_counter()
        resume = RunFolder(folder).config_file.exists()
        run_plan(settled_plan(config, source), folder, resume=resume, feature_cache=cache)
        file.write_text(json.dumps(time.perf_counter() - started))
    return json.loads(file.read_text())


def _train_by_trials(folder: Path, given: Mapping[str, Any], source: Source, cache: Path) -> float:
    file = folder / "trials_seconds.json"
    plan = plan_run(load_config(overrides=given), source=source)
    if not file.exists():
        started = time.perf_counter()
        plan.finish(folder, cache)
        file.write_text(json.dumps(time.perf_counter() - started))
    config = plan.finish(folder, cache)
    return json.loads(file.read_text()) + _train_into(folder, config, source, cache)


def _found(folder: Path) -> dict[str, Any]:
    content = json.loads(RunFolder(folder).choices_file.read_text())
    values = {choice["setting"]: choice["value"] for choice in content["choices"]}
    tried = ("train.lr_head", "train.epochs", "method.alpha")
    return {"trials": len(content["trials"]), **{key: values.get(key) for key in tried}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", help="data sets; NAME=PATH gives the root of a named one")
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all runs")
    chosen = parser.parse_args()
    for item in chosen.data:
        data, _, root = item.partition("=")
        settings = {**read_settings(chosen.set), **({"data.root": root} if root else {})}
        place = chosen.out / f"{Path(data).name}-{chosen.seed}"
        row = run(data, settings, place, seed=chosen.seed)
        with replacing(place / "result.json") as temporary:
            temporary.write_text(json.dumps(row, indent=1))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
