"""``scdh compare``: every cell of a grid run, left and resumed at will; then one table of means over the seeds.

Several processes, also on several machines that share the folder, may run the same comparison: each takes the cells
that no other has begun. Nothing is chosen by looking at queries: the best epoch, and values to be tuned, are taken by
MAP of validation rows.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.experiments.compare.budget import epochs_within
from scdh.experiments.compare.cell import Bench
from scdh.experiments.compare.cell_results import results_of
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.summary import rows_of, shared_target
from scdh.experiments.compare.tuning import tune
from scdh.files import replacing
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.folder import claim_folder
from scdh.runs.protocol import protocol_of
from scdh.versions import versions

RESULTS = "compare.json"
FEW_STEPS = 100


def compare_methods(
    grid: Grid,
    source: Source,
    out: Path,
    *,
    topk: int | None = None,
    seconds: float | None = None,
    tuned: Mapping[str, Sequence[Any]] | None = None,
    target: float | None = None,
    cache: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run what is left of the grid in ``out`` and return the results as written to ``out/compare.json``.

    ``seconds`` gives every method that much training time instead of equal epochs; ``tuned`` maps settings to values
    to try for every method; ``target`` is the validation MAP whose time is told (default: what all methods reach);
    ``cache`` keeps the features of a frozen network, also for other comparisons (default: ``out/features``).
    """
    cache = cache or out / "features"
    grid.check().check_labels(source)
    first = protocol_of(grid.config(grid.methods[0], grid.bits[0], grid.seeds[0], source), source)
    if not len(first.query):
        raise ConfigError("The data have no queries to compare with; set data.query_per_class (not data.split=all).")
    if target is not None and not len(first.validation):
        raise ConfigError("The time to a validation MAP needs validation rows: add --set data.validation_per_class=20.")
    chosen: dict[str, Any] = {}
    if tuned:
        grid, chosen = tune(grid, source, out, tuned, cache, say)
    cells = grid.cells(source, None if seconds is None else epochs_within(grid, source, out, seconds, cache))
    bench = Bench(source, out, topk, cache)
    for cell in cells:  # before any work: runs of the same names but other settings are another comparison's
        if (bench.place(cell) / "config.json").exists():
            claim_folder(bench.place(cell), cell.config, resume=True, write=False)
    trained = [cell.config.train for cell in cells if method_class(cell.method).learns_by_gradient]
    steps = max((settings.epochs * (settings.epoch_steps or 0) for settings in trained), default=FEW_STEPS)
    if steps < FEW_STEPS:
        say(f"{steps} optimiser steps are too few to tell methods apart; raise --epochs or train.epoch_steps.")
    left = [cell for cell in cells if not bench.done(cell)]
    if left and len(left) < len(cells):
        say(f"{len(cells) - len(left)} of {len(cells)} runs are done already.")
    for cell in track(left, len(left), "runs", "runs"):
        bench.run(cell)
    for cell in left:  # once more: another process may have taken one and been killed since
        if not bench.done(cell):
            bench.run(cell)
    missing = [cell.name for cell in cells if not bench.done(cell)]
    if missing:
        say(f"Another process is still at {', '.join(missing)}; the same command shows them once it is ready.")

    entries = [entry for cell in cells if bench.done(cell) for entry in results_of(bench.place(cell), cell)]
    target = shared_target(entries) if target is None else target
    parts = ("train", "unlabelled", "validation", "query", "database")
    found = {
        "data": {
            "name": source.name,
            "fingerprint": source.fingerprint(),
            "labels": source.num_classes,
            "multi_label": source.multi_label,
            **{part: len(getattr(first, part)) for part in parts},
        },
        "methods": list(grid.methods),
        "bits": list(grid.bits),
        "seeds": list(grid.seeds),
        "budget": {
            "seconds": seconds,
            "epochs": sorted({settings.epochs for settings in trained}),
            "steps": sorted({settings.epochs * (settings.epoch_steps or 0) for settings in trained}),
        },
        "protocols": {str(e["seed"]): e["protocol"] for e in entries if "protocol" in e},
        "network": cells[0].config.net.model_dump(mode="json"),
        "tuned": chosen,
        "target": target,
        "failed": {entry["cell"]: entry["failed"] for entry in entries if "failed" in entry},
        "missing": missing,
        "definition": next((entry["definition"] for entry in entries if "definition" in entry), None),
        "rows": rows_of(entries, target),
        "cells": entries,
        "configs": {cell.name: cell.config.model_dump(mode="json") for cell in cells if cell.seed == grid.seeds[0]},
        "versions": versions(),
    }
    with replacing(out / RESULTS) as temporary:
        temporary.write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8")
    return found
