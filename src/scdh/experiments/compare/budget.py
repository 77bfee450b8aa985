"""Equal time instead of equal steps: how many epochs each method may have."""

import json
from pathlib import Path

from scdh.config import RunConfig
from scdh.data.source import Source
from scdh.errors import TrainingError
from scdh.experiments.compare.grid import Grid
from scdh.files import locked, replacing
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.training.run import train

TIMED_STEPS = 20


def epochs_within(grid: Grid, source: Source, out: Path, seconds: float, cache: Path) -> dict[tuple[str, int], int]:
    """Epochs of each (method, bits) that take about ``seconds``, by the time of some steps measured on this machine.

    They are measured once and kept in ``out/budget.json``: a comparison that is resumed goes on with the same, and
    other processes that share the work wait for them.
    """
    file, kept = out / "budget.json", {}
    learning = [name for name in grid.methods if method_class(name).learns_by_gradient]
    work = [(name, bits) for name in learning for bits in grid.bits]
    found = {}
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / ".timing", wait=True):
        if file.exists():
            kept = json.loads(file.read_text("utf-8"))
        for name, bits in track(work, len(work), "timing steps", "methods"):
            seed, key = grid.seeds[0], f"{name}-{bits}"
            usual = grid.cell(source, name, bits, seed).config.train
            if key not in kept:
                short = {"train.epochs": 2, "train.epoch_steps": TIMED_STEPS, "data.validation_per_class": 0}
                if "batch_epochs" in method_class(name).Settings.model_fields:
                    short["method.batch_epochs"] = 0  # DPSH's first epochs are its cheap ones
                timed = grid.config(name, bits, seed, source, **short)
                try:
                    kept[key] = seconds_a_step(timed, source, cache)
                except TrainingError:  # it diverges; its runs will say so, whatever their length
                    found[name, bits] = usual.epochs
                    continue
                with replacing(file) as temporary:
                    temporary.write_text(json.dumps(kept, indent=1), "utf-8")
            found[name, bits] = max(1, round(seconds / (kept[key] * (usual.epoch_steps or 1))))
    return found


def seconds_a_step(config: RunConfig, source: Source, cache: Path) -> float:
    """Of the last epoch: the first one warms up."""
    result = train(config, None, feature_cache=cache, quiet=True, source=source)
    return float(result.info["history"]["seconds"]) / TIMED_STEPS
