"""A learning rate for every method that trains on embeddings or a frozen network, by as many trials for all.

With a rate that was chosen for another method, a method may score far below what it can. Trials use training rows and
are scored on validation rows: the ten trials of ``scdh train`` (:mod:`scdh.training.trials`), seven rates at a short
length and three at the full one. Which rates the last three have depends on the first seven. The number of epochs stays
the one that all methods share. A network that learns as a whole would take too long.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scdh.config import read_settings_file
from scdh.data.source import Source
from scdh.experiments.compare.cell import warnings_named
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.results import TriedValues, TuningResult
from scdh.experiments.compare.tuning import Tuner
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.choices import Choices, flat_settings
from scdh.storage.files import locked
from scdh.training.search import EPOCHS, RATE
from scdh.training.trials import TRUNK_RATE, choose_by_trials, settings_to_try

# Wide enough that the best rate of every method is inside: further rates for some would be more trials than others get.
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)


def own_rates(
    grid: Grid, source: Source, out: Path, cache: Path, notify: Callable[[str], None]
) -> tuple[Grid, dict[str, TuningResult]]:
    """The grid with a rate for each method that has none given, and what was tried."""
    tuner = Tuner(grid, source, out, cache, notify)
    names = [name for name in grid.methods if has_no_rate(grid, name)]
    for name in track(names, len(names), "learning rates", "methods"):
        cell = grid.cell(source, name, grid.middle_bits(name), tuner.seed)
        protocol = grid.split(source, cell.seed).protocol
        given = {**(grid.settings or {}), **(grid.method_settings or {}).get(name, {})}
        keys, why_not = settings_to_try(cell.config, source, protocol, given)
        to_try = [key for key in keys if key in (RATE, TRUNK_RATE)]
        if RATE not in to_try:
            notify(f"{name}: {RATE}={cell.config.train.lr_head:g}, no others are tried: {why_not}")
            continue
        file = out / "rates" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.with_suffix(".lock"), wait=True):  # another process may run the same comparison
            choices = Choices.load(file)
            if choices is None or not choices.are_for(cell.config, protocol.fingerprint):
                choices = Choices(cell.config, to_try, protocol=protocol.fingerprint)
            with warnings_named(f"trials of {cell.name}"):
                choose_by_trials(choices, source, protocol, file=file, feature_cache=cache, rates=RATES)
        rate = choices.made[0].value
        tried = [
            TriedValues(values={key: trial.values[key] for key in (RATE, EPOCHS)}, validation_map=trial.validation_map)
            for trial in choices.trials
        ]
        epochs = max(trial.values[EPOCHS] for trial in choices.trials)
        settings = {choice.setting: choice.value for choice in choices.made}
        tuner.keep(name, settings, {RATE: rate, EPOCHS: epochs}, tried)
        notify(f"{name}: {RATE}={rate:g}, {choices.made[0].reason} at {cell.bits} bits")
    return tuner.grid_with_settings(), tuner.results


def left_to_train(grid: Grid, source: Source, tuning: Mapping[str, TuningResult]) -> dict[str, list[str]]:
    """Method → settings that ``scdh train`` finds by trials for these data, and that were not chosen here."""
    left = {}
    for name in grid.methods if grid.preset is None and grid.file is None else ():
        cell = grid.cell(source, name, grid.middle_bits(name), grid.seeds[0])
        given = {**(grid.settings or {}), **(grid.method_settings or {}).get(name, {})}
        to_try, _ = settings_to_try(cell.config, source, grid.split(source, cell.seed).protocol, given)
        chosen = tuning[name].chosen if name in tuning else {}
        left[name] = [key for key in to_try if key not in chosen and key != TRUNK_RATE]
    return {name: keys for name, keys in left.items() if keys}


def has_no_rate(grid: Grid, name: str) -> bool:
    """Whether a method is trained and its learning rate was not given."""
    in_file = {} if grid.file is None else flat_settings(read_settings_file(grid.file))
    given: tuple[Mapping[str, Any], ...] = (in_file, grid.settings or {}, (grid.method_settings or {}).get(name, {}))
    return method_class(name).learns_by_gradient and not any(RATE in settings for settings in given)
