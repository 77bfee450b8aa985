"""Learning rates for every trained method, found by the same number of trials for all.

With a rate that was chosen for another method, a method may score far below what it can. Trials use training rows and
are scored on validation rows. There are two kinds, because a trial costs seconds or hours:

- On embeddings and frozen networks: the ten trials of ``scdh train`` (:mod:`scdh.training.trials`), seven rates at a
  short length and three at the full one. Which rates the last three have depends on the first seven. The number of
  epochs stays the one that all methods share (or, for equal times, the method's own).
- For a network that learns as a whole, if asked for: five trials with a third of the epochs. The rates of head and
  trunk as given, and both a third and three times as high; then, with the best of these, the head's alone a third and
  three times as high. Outputs of losses differ in size, so the ratio of the two rates that suits one does not suit all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from scdh.config import read_settings_file
from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.experiments.compare.grid import Cell, Grid
from scdh.experiments.compare.named_warnings import warnings_named
from scdh.experiments.compare.results import Trial, TuningResult
from scdh.experiments.compare.tuning import Tuner
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.choices import Choices, flat_settings
from scdh.runs.choices import Trial as RateTrial
from scdh.storage.files import locked
from scdh.training.search import ALPHA, EPOCHS, RATE, Search, Start
from scdh.training.trials import TRUNK_RATE, choose_by_trials, settings_to_try

# Wide enough that the best rate of every method is inside: further rates for some would be more trials than others get.
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
WHOLE_RATES: Literal["rates"] = "rates"
FACTORS = (1.0, 0.3, 3.0)  # the first, which is the rates as given, is taken if scores are equal or all runs diverge
SHORTER = 3  # a trial of a whole network has this fraction of the epochs


def own_rates(
    grid: Grid, source: Source, out: Path, cache: Path, notify: Callable[[str], None]
) -> tuple[Grid, dict[str, TuningResult]]:
    """The grid with a rate for each method that has none given, and what was tried.

    Args:
        grid, source, cache, notify: as for :class:`scdh.experiments.compare.tuning.Tuner`.
        out: folder of the comparison; trials are kept in ``out/rates``.
    """
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
            choices = _as_searched_today(choices, to_try, RATES)
            with warnings_named(f"trials of {cell.name}"):
                choose_by_trials(choices, source, protocol, file=file, feature_cache=cache, rates=RATES)
        rate = choices.made[0].value
        tried = [
            Trial(values={key: trial.values[key] for key in (RATE, EPOCHS)}, validation_map=trial.validation_map)
            for trial in choices.trials
        ]
        epochs = max(trial.values[EPOCHS] for trial in choices.trials)
        settings = {choice.setting: choice.value for choice in choices.made}
        tuner.keep(name, settings, {RATE: rate, EPOCHS: epochs}, tried)
        notify(f"{name}: {RATE}={rate:g}, {choices.made[0].reason} at {cell.bits} bits")
    return tuner.grid_with_settings(), tuner.results


def rates_of_whole_networks(
    grid: Grid, source: Source, out: Path, cache: Path, notify: Callable[[str], None]
) -> tuple[Grid, dict[str, TuningResult]]:
    """The grid with both rates for each method that has none given, and what was tried.

    Args:
        grid, source, out, cache, notify: as for :class:`scdh.experiments.compare.tuning.Tuner`.
    """
    tuner = Tuner(grid, source, out, cache, notify)
    names = [name for name in grid.methods if has_no_rate(grid, name)]
    if not names:
        raise ConfigError("--tune rates has no rates to find: each is given, or belongs to a method without training.")
    config = grid.cell(source, names[0], grid.middle_bits(names[0]), tuner.seed).config
    if source.kind != "images" or config.net.freeze is True:
        raise ConfigError(
            "--tune rates is for networks that learn as a whole; on embeddings and frozen networks (net.freeze=true) "
            "ten trials find each method's rate without it."
        )

    def try_rates(factors: list[tuple[str, float, float]], title: str) -> dict[str, list[Trial]]:
        cells = [whole_trial(grid, source, name, trunk, head) for name, trunk, head in factors]
        return tuner.try_cells([(cell, _rates_and_epochs(cell)) for cell in cells], title)

    both = try_rates([(name, factor, factor) for name in names for factor in FACTORS], "learning rates")
    found = {name: FACTORS[tried.index(tuner.best(name, tried))] for name, tried in both.items()}
    of_head = try_rates(
        [(name, found[name], found[name] * factor) for name in names for factor in FACTORS[1:]], "rates of the heads"
    )
    for name in names:
        tried = [*both[name], *of_head[name]]
        best = tuner.best(name, tried)
        rates = {key: best.values[key] for key in (RATE, TRUNK_RATE)}
        tuner.keep(name, rates, best.values, tried)
        score = best.validation_map
        why = "as every run diverged" if score is None else f"validation MAP {score:.3f}"
        listed = ", ".join(f"{key}={value:g}" for key, value in rates.items())
        notify(f"{name}: {listed}, {why} at {grid.middle_bits(name)} bits")
    return tuner.grid_with_settings(), tuner.results


def whole_trial(grid: Grid, source: Source, method: str, trunk: float, head: float) -> Cell:
    """A short run of a whole network, with the usual rates of trunk and head times these factors."""
    bits, seed = grid.middle_bits(method), grid.seeds[0]
    usual = grid.cell(source, method, bits, seed).config.train
    rates = {RATE: _rounded(usual.lr_head * head), TRUNK_RATE: _rounded(usual.lr_trunk * trunk)}
    own = {**(grid.method_settings or {}).get(method, {}), **rates, "train.validate_every": 1}
    short = max(1, round(usual.epochs / SHORTER))
    cell = replace(grid, method_settings={method: own}).cell(source, method, bits, seed, short)
    return replace(cell, tried=f"rates={trunk:g}" if trunk == head else f"rates={trunk:g},head={head:g}")


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


def _rates_and_epochs(cell: Cell) -> dict[str, Any]:
    settings = cell.config.train
    return {RATE: settings.lr_head, TRUNK_RATE: settings.lr_trunk, EPOCHS: settings.epochs}


def _rounded(rate: float) -> float:
    """Three digits: 3 × 0.0005 is not 0.0015 in floating point."""
    return float(f"{rate:.3g}")


def _as_searched_today(choices: Choices, to_try: list[str], rates: Sequence[float]) -> Choices:
    """Kept choices if the search would make the same trials and take the same rate; else what can be used of them.

    Args:
        choices: of trials with the same settings and split, all of them or the first.
        to_try: settings that trials decide.
        rates: that every method tries first.
    """
    asked: list[RateTrial] = []

    def look_up(values: dict[str, Any], _: float | None) -> RateTrial:
        trial = choices.find_trial(values)
        if trial is None:
            raise LookupError
        if trial not in asked:
            asked.append(trial)
        return trial

    rate = None
    try:
        first, epochs = choices.trials[0].values, max(trial.values[EPOCHS] for trial in choices.trials)
        start = Start(choices.config.train.lr_head, epochs, first[EPOCHS], first.get(ALPHA))
        rate = Search([RATE], start, look_up, tuple(rates)).run()[0].value
    except LookupError:
        pass  # trials are left to make
    made = next((choice.value for choice in choices.made if choice.setting == RATE), None)
    if len(asked) == len(choices.trials) and rate == made:
        return choices
    return replace(choices, to_try=to_try, made=[], trials=asked)
