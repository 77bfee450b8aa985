"""Equal time instead of equal steps: how many epochs each method may have.

A run takes fixed + epochs · epoch seconds. Some costs occur once per run (what a method prepares or infers first), some
once per epoch (k-means of all rows) and the rest at every step, so runs of a few epochs are timed, with as many steps
per epoch as the real ones have or, if these are many, with two smaller numbers of steps.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from scdh.config import RunConfig
from scdh.data.source import Source
from scdh.errors import TrainingError
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.named_warnings import warnings_named
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.storage.checksums import CHECKSUM, json_checksum
from scdh.storage.files import locked
from scdh.storage.json_files import read_table, write_table
from scdh.training.plan import settled_plan
from scdh.training.run import run_plan

TIMED_EPOCHS = 8
FEW_STEPS, MOST_STEPS = 10, 100  # of a timed epoch
BUDGET_FILE = "budget.json"


class RunTime(NamedTuple):
    """Seconds of a run: ``fixed``, whatever its length, and ``epoch``, of each epoch."""

    fixed: float
    epoch: float

    def epochs_in(self, seconds: float) -> int:
        """How many epochs take about so long, at least 1.

        >>> RunTime(0.5, 0.1).epochs_in(2), RunTime(5, 0.1).epochs_in(2)
        (15, 1)
        """
        return max(1, round((seconds - self.fixed) / self.epoch))


def epochs_within(
    grid: Grid,
    source: Source,
    out: Path,
    seconds: float,
    cache: Path,
    notify: Callable[[str], None] = lambda _: None,
) -> dict[tuple[str, int], int]:
    """Epochs that take each trained method about as long, by the time of some epochs on this machine.

    The times are measured once for the same settings and stored in ``out/budget.json``, so a comparison that is resumed
    goes on with the same numbers of epochs; other processes that share the work wait for them.

    Args:
        grid: the comparison; methods that are fitted are left out.
        source: its data.
        out: its folder.
        seconds: training time for every run.
        cache: folder for the features of a frozen network.
        notify: is called with a line about each method that needs more than that for one epoch.

    Returns:
        Epochs by (method, bits), at least 1. A method that diverges has its usual number: its runs will report it.
    """
    file = out / BUDGET_FILE
    stored: dict[str, Any] = {}
    epochs: dict[tuple[str, int], int] = {}
    trained = [name for name in grid.methods if method_class(name).learns_by_gradient]
    pairs = [(name, bits) for name in trained for bits in grid.bits_of(name)]
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / ".timing", wait=True):
        if file.exists():
            stored = read_table(file, "times of epochs", "delete it, and they are measured again")
            stored.pop(CHECKSUM, None)
        for name, bits in track(pairs, len(pairs), "timing epochs", "methods"):
            config = grid.cell(source, name, bits, grid.seeds[0]).config
            key = f"{name}-{bits}-{_settings_hash(config)}"
            time = _stored_time(stored.get(key))
            if time is None:
                try:
                    with warnings_named(f"timing of {name}-{bits}"):
                        time = run_time(config, source, cache, seconds)
                except TrainingError:
                    epochs[name, bits] = config.train.epochs
                    continue
                stored[key] = time._asdict()
                write_table(file, stored)
            epochs[name, bits] = time.epochs_in(seconds)
            if time.fixed + time.epoch > 1.5 * seconds:
                notify(
                    f"{name}: one epoch takes {time.fixed + time.epoch:.3g} s at {bits} bits; fewer are not possible."
                )
    return epochs


def _stored_time(entry: Any) -> RunTime | None:
    """What the file holds for some settings; None where that is nothing, or no times."""
    fixed, epoch = (entry.get("fixed"), entry.get("epoch")) if isinstance(entry, dict) else (None, None)
    if isinstance(fixed, int | float) and isinstance(epoch, int | float) and epoch > 0:
        return RunTime(fixed, epoch)
    return None


def run_time(config: RunConfig, source: Source, cache: Path, seconds: float) -> RunTime:
    """What a run takes, by two short ones; the first of them also warms the machine up.

    Args:
        config: settings of the run.
        source: its data.
        cache: folder for the features of a frozen network.
        seconds: the longer one should not take much longer than that.
    """
    steps = config.train.epoch_steps or 1
    few = min(steps, FEW_STEPS)
    short = usual_epoch(epoch_seconds(_timed_config(config, few), source, cache))
    affordable = int(seconds / (TIMED_EPOCHS * short / few))
    many = min(steps, MOST_STEPS, max(affordable, 2 * FEW_STEPS))
    timed = epoch_seconds(_timed_config(config, many), source, cache)
    epoch = usual_epoch(timed)
    fixed = max(0.0, sum(timed) - len(timed) * epoch)
    if many < steps:  # what occurs once per epoch must not be counted once for so few steps
        step = (epoch - short) / (many - few)
        epoch += (steps - many) * (step if step > 0 else epoch / many)
    return RunTime(fixed, epoch)


def usual_epoch(seconds: list[float]) -> float:
    """The seconds of a usual epoch: neither the first nor the last, which may do more.

    Epochs are taken two by two, as methods do something every second epoch; the median leaves out a single disturbance.

    >>> usual_epoch([9.0, 1.0, 3.0, 1.0, 3.0, 50.0, 3.0, 9.0])
    2.0
    """
    middle = seconds[1:-1]
    return median(sum(two) / 2 for two in zip(middle[::2], middle[1::2], strict=True))


def epoch_seconds(config: RunConfig, source: Source, cache: Path) -> list[float]:
    """Seconds of each epoch of a run that leaves nothing behind; those of the first include what is prepared."""
    seconds: list[float] = []
    each_epoch: Callable[[dict[str, float]], None] = lambda figures: seconds.append(figures["seconds"])  # noqa: E731
    run_plan(settled_plan(config, source), feature_cache=cache, quiet=True, each_epoch=each_epoch)
    return seconds


def _timed_config(config: RunConfig, steps: int) -> RunConfig:
    values: dict[str, Any] = {"train.epochs": TIMED_EPOCHS, "train.epoch_steps": steps, "train.keep": "last"}
    values |= {"train.validate_every": TIMED_EPOCHS, "train.patience": None}
    values |= {f"method.{key}": value for key, value in method_class(config.method.name).timing_settings.items()}
    return config.with_values(values)


def _settings_hash(config: RunConfig) -> str:
    """Eight digits that differ where settings differ which the time may depend on. Defaults are left out: a setting
    that comes with a newer version changes nothing.
    """
    settings = config.model_dump(mode="json", include={"net", "method", "train"}, exclude_defaults=True)
    for key in ("epochs", "lr_steps"):
        settings["train"].pop(key, None)
    return json_checksum(settings)[-8:]
