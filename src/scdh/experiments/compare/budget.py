"""Equal time instead of equal steps: how many epochs each method may have."""

from pathlib import Path
from typing import Any

from scdh.checksums import CHECKSUM
from scdh.config import RunConfig
from scdh.data.source import Source
from scdh.errors import TrainingError
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.named_warnings import warnings_named
from scdh.files import locked
from scdh.json_files import read_table, write_table
from scdh.methods.declared import declared
from scdh.progress import track
from scdh.training.run import train

TIMED_STEPS = 20
BUDGET_FILE = "budget.json"


def epochs_within(grid: Grid, source: Source, out: Path, seconds: float, cache: Path) -> dict[tuple[str, int], int]:
    """Epochs that take each trained method about as long, by the time of some steps on this machine.

    The times are measured once and stored in ``out/budget.json``, so a comparison that is resumed goes on with the
    same numbers of epochs; other processes that share the work wait for them.

    Args:
        grid: the comparison; methods that are fitted are left out.
        source: its data.
        out: its folder.
        seconds: training time for every run.
        cache: folder for the features of a frozen network.

    Returns:
        Epochs by (method, bits), at least 1. A method that diverges has its usual number: its runs will report it.
    """
    file = out / BUDGET_FILE
    step_seconds: dict[str, float] = {}
    epochs: dict[tuple[str, int], int] = {}
    trained = [name for name in grid.methods if declared(name).learns_by_gradient]
    pairs = [(name, bits) for name in trained for bits in grid.bits_of(name)]
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / ".timing", wait=True):
        if file.exists():
            step_seconds = read_table(file, "times of steps", "delete it, and they are measured again")
            step_seconds.pop(CHECKSUM, None)
        for name, bits in track(pairs, len(pairs), "timing steps", "methods"):
            key, settings = f"{name}-{bits}", grid.cell(source, name, bits, grid.seeds[0]).config.train
            if key not in step_seconds:
                try:
                    with warnings_named(f"timing of {key}"):
                        step_seconds[key] = seconds_per_step(_timed_config(grid, source, name, bits), source, cache)
                except TrainingError:
                    epochs[name, bits] = settings.epochs
                    continue
                write_table(file, step_seconds)
            epochs[name, bits] = max(1, round(seconds / (step_seconds[key] * (settings.epoch_steps or 1))))
    return epochs


def _timed_config(grid: Grid, source: Source, method: str, bits: int) -> RunConfig:
    settings: dict[str, Any] = {
        "train.epochs": 2,
        "train.epoch_steps": TIMED_STEPS,
        "data.validation_per_class": 0,
    }
    settings |= {f"method.{key}": value for key, value in declared(method).timing_settings.items()}
    return grid.config(method, bits, grid.seeds[0], source, **settings)


def seconds_per_step(config: RunConfig, source: Source, cache: Path) -> float:
    """Measured in the last epoch, because the first one warms up."""
    model = train(config, None, feature_cache=cache, quiet=True, source=source)
    return float(model.info["history"]["seconds"]) / TIMED_STEPS
