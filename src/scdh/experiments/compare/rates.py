"""A learning rate of its own for every trained method, found by the same trials for all.

At another method's rate a method may score far below what it can; that would compare rates, not methods. The trials
are those of ``scdh train`` (:mod:`scdh.training.trials`): on training rows, scored on validation rows. Every method
gets the same number of them, ten: seven rates at a short length and three at the full one. The number of epochs stays
the one that all methods share (or, for equal times, the method's own).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scdh.config import read_settings_file
from scdh.data.source import Source
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.kept_trials import as_searched_today
from scdh.experiments.compare.named_warnings import warnings_named
from scdh.experiments.compare.results import Trial, TuningResult
from scdh.files import locked
from scdh.methods.declared import declared
from scdh.progress import track
from scdh.runs.choices import Choices, flat_settings
from scdh.runs.protocol import protocol_of
from scdh.training.search import EPOCHS, RATE
from scdh.training.trials import TRUNK_RATE, choose_by_trials, settings_to_try

# Wide enough that no method's best is outside: further rates for some would be more trials than others get.
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)


def own_rates(
    grid: Grid, source: Source, out: Path, cache: Path, notify: Callable[[str], None]
) -> tuple[Grid, dict[str, TuningResult]]:
    """The grid with a rate for each method that has none given, and what was tried.

    Args:
        grid: the comparison; the middle one of its lengths of codes and the first of its seeds decide for all.
        source: its data.
        out: its folder; trials are kept in ``out/rates``.
        cache: folder for the features of a frozen network.
        notify: is called with one line about each method.
    """
    seed = grid.seeds[0]
    method_settings = {name: dict(settings) for name, settings in (grid.method_settings or {}).items()}
    results: dict[str, TuningResult] = {}
    names = [name for name in grid.methods if has_no_rate(grid, name)]
    for name in track(names, len(names), "learning rates", "methods"):
        bits = grid.middle_bits(name)
        cell = grid.cell(source, name, bits, seed)
        protocol = protocol_of(cell.config, source)
        given = {**(grid.settings or {}), **method_settings.get(name, {})}
        keys, why_not = settings_to_try(cell.config, source, protocol, given)
        to_try = [key for key in keys if key in (RATE, TRUNK_RATE)]
        if RATE not in to_try:
            notify(f"{name}: {RATE}={cell.config.train.lr_head:g}, no others are tried: {why_not}")
            continue
        file = out / "rates" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        with locked(file.with_suffix(".lock"), wait=True):  # another process may be at the same comparison
            choices = Choices.load(file)
            if choices is None or not choices.are_for(cell.config, protocol.fingerprint):
                choices = Choices(cell.config, to_try, protocol=protocol.fingerprint)
            choices = as_searched_today(choices, to_try, RATES)
            with warnings_named(f"trials of {cell.name}"):
                choose_by_trials(choices, source, protocol, file=file, feature_cache=cache, rates=RATES)
        rate = choices.made[0].value
        found = {choice.setting: choice.value for choice in choices.made}
        method_settings[name] = {**method_settings.get(name, {}), **found}
        results[name] = TuningResult(
            chosen={RATE: rate, EPOCHS: max(trial.values[EPOCHS] for trial in choices.trials)},
            bits=bits,
            seed=seed,
            tried=[
                Trial(values={key: trial.values[key] for key in (RATE, EPOCHS)}, validation_map=trial.validation_map)
                for trial in choices.trials
            ],
        )
        notify(f"{name}: {RATE}={rate:g}, {choices.made[0].reason} at {bits} bits")
    return replace(grid, method_settings=method_settings), results


def has_no_rate(grid: Grid, name: str) -> bool:
    """Whether a method is trained and its learning rate was not given."""
    in_file = {} if grid.file is None else flat_settings(read_settings_file(grid.file))
    given: tuple[Mapping[str, Any], ...] = (in_file, grid.settings or {}, (grid.method_settings or {}).get(name, {}))
    return declared(name).learns_by_gradient and not any(RATE in settings for settings in given)
