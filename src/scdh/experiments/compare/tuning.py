"""Try settings for each method, score them on validation rows, and keep the best; queries are never used.

All methods get the same values to try, or the same number of their own. A method that is fitted takes part if it has
settings to tune (SDH).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.grid import Cell, Grid, check_not_shared
from scdh.experiments.compare.results import TriedValues, TuningResult
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.choices import flat_settings

Values = Mapping[str, Sequence[Any]]  # setting by dotted key → values to try
TRIALS_FOLDER = "tuning"
OWN_VALUES: Literal["grid"] = "grid"  # an equal number of combinations of the values that each method declares


class Tuner:
    """The trials of a comparison and their choices."""

    def __init__(
        self,
        grid: Grid,
        source: Source,
        out: Path,
        cache: Path,
        notify: Callable[[str], None],
        found: Mapping[str, TuningResult] | None = None,
    ) -> None:
        self.grid = grid
        self.source = source
        self.notify = notify
        self.found = found or {}
        self.seed = grid.seeds[0]
        self.results: dict[str, TuningResult] = {}
        self._runner = CellRunner(source, out / TRIALS_FOLDER, cache=cache, known=grid.known)
        self._settings = {name: dict(settings) for name, settings in (grid.method_settings or {}).items()}

    def try_cells(
        self,
        trials: Sequence[tuple[Cell, dict[str, Any]]],
        title: str,
        after_run: Callable[[], None] = lambda: None,
    ) -> dict[str, list[TriedValues]]:
        """Train every trial and score it on validation rows: method → its trials, in the order given.

        Other processes with the same comparison share the work.
        """
        for cell, _ in track(trials, len(trials), title, "runs"):
            if not self._runner.is_trained(cell):
                self._runner.train(cell)
                after_run()
        by_method: dict[str, list[TriedValues]] = {}
        for cell, tried in trials:
            self._runner.train(cell, wait=True)  # cells that another process has begun
            trial = TriedValues(values=tried, validation_map=self._runner.validation_map(cell))
            by_method.setdefault(cell.method, []).append(trial)
        return by_method

    def best(self, method: str, trials: Sequence[TriedValues]) -> TriedValues:
        """The trial with the highest validation MAP; if several are equal, or all diverged, the one with the most usual
        values."""
        config = self.grid.cell(self.source, method, self.grid.middle_bits(method), self.seed).config
        return best_of(trials, flat_settings(config.model_dump(mode="json")))

    def keep(self, method: str, settings: dict[str, Any], chosen: dict[str, Any], tried: list[TriedValues]) -> None:
        """Record a choice: ``settings`` go into the grid, ``chosen`` and ``tried`` into the results."""
        self._settings[method] = {**self._settings.get(method, {}), **settings}
        if (before := self.found.get(method)) is not None:
            chosen, tried = {**before.chosen, **chosen}, [*before.tried, *tried]
        bits = self.grid.middle_bits(method)
        self.results[method] = TuningResult(chosen=chosen, bits=bits, seed=self.seed, tried=tried)

    def grid_with_settings(self) -> Grid:
        """The grid with the settings that were kept."""
        return replace(self.grid, method_settings=self._settings)


def best_of(trials: Sequence[TriedValues], usual: Mapping[str, Any]) -> TriedValues:
    """The trial with the highest validation MAP; ties go to the one that has most of the ``usual`` values."""

    def rank(trial: TriedValues) -> tuple[float, int]:
        score = -1.0 if trial.validation_map is None else trial.validation_map
        return score, sum(usual.get(key) == value for key, value in trial.values.items())

    return max(trials, key=rank)


def tune(
    grid: Grid,
    source: Source,
    out: Path,
    values: Mapping[str, Values],
    cache: Path,
    notify: Callable[[str], None],
    found: Mapping[str, TuningResult] | None = None,
    after_run: Callable[[], None] = lambda: None,
) -> tuple[Grid, dict[str, TuningResult]]:
    """Choose settings for each method that has values to try.

    Returns:
        The grid with the best values, and what was tried for each method.
    """
    tuner = Tuner(grid, source, out, cache, notify, found)
    for method, tried_here in tuner.try_cells(trials_of(grid, source, values), "tuning", after_run).items():
        best = tuner.best(method, tried_here)
        tuner.keep(method, best.values, best.values, tried_here)
        chosen = ", ".join(f"{key}={value}" for key, value in best.values.items()) or "nothing to tune"
        by_map = f"by validation MAP at {grid.middle_bits(method)} bits"
        notify(f"{method}: {chosen}, {'as every run diverged' if best.validation_map is None else by_map}")
    return tuner.grid_with_settings(), tuner.results


def trials_of(grid: Grid, source: Source, values: Mapping[str, Values]) -> list[tuple[Cell, dict[str, Any]]]:
    """The run of every trial of :func:`tune`, and the values that it tries."""
    trials = []
    for method, of_method in values.items():
        for combination in product(*of_method.values()):
            tried = dict(zip(of_method, combination, strict=True))
            trials.append((_trial_cell(grid, source, method, grid.middle_bits(method), grid.seeds[0], tried), tried))
    return trials


def trials_left(grid: Grid, source: Source, values: Mapping[str, Values], out: Path) -> int:
    """How many trials of a comparison in ``out`` are not trained."""
    runner = CellRunner(source, out / TRIALS_FOLDER, known=grid.known)
    return sum(not runner.is_trained(cell) for cell, _ in trials_of(grid, source, values))


def _trial_cell(grid: Grid, source: Source, method: str, bits: int, seed: int, tried: dict[str, Any]) -> Cell:
    settings = {method: {**(grid.method_settings or {}).get(method, {}), **tried}}
    text = ",".join(f"{key}={value}" for key, value in tried.items())
    cell = replace(grid, method_settings=settings).cell(source, method, bits, seed)
    return replace(cell, tried=text.replace("/", "_"))


def values_to_try(values: Values | Literal["grid"], grid: Grid) -> dict[str, Values]:
    """Method → setting → values to try, for every method that has some.

    Raises:
        ConfigError: if a value cannot be tried, or methods would have different numbers of trials.
    """
    tunable = [
        name for name in grid.methods if method_class(name).learns_by_gradient or method_class(name).tuned_settings
    ]
    if not tunable:
        raise ConfigError("There is nothing to tune: none of the methods is trained, or has values to try.")
    if values == OWN_VALUES:
        by_method: dict[str, Values] = {name: _own_values(name) for name in tunable}
        _check_equal_numbers(by_method)
    else:
        assert not isinstance(values, str)
        by_method = {name: {key: values[key] for key in values if _has_setting(name, key)} for name in tunable}
        by_method = {name: own for name, own in by_method.items() if own or method_class(name).learns_by_gradient}
        for key in values:
            if not any(key in of_method for of_method in by_method.values()):
                raise ConfigError(f"None of the methods has the setting {key} to tune.")
    for method, of_method in by_method.items():
        check_not_shared(of_method)
        for key, tried in of_method.items():
            given = {**(grid.settings or {}), **(grid.method_settings or {}).get(method, {}), key: tried[0]}
            grid.config(method, grid.bits[0], grid.seeds[0], given)  # raises if the key is unknown
            if len({str(value) for value in tried}) != len(tried):
                raise ConfigError(f"The values of {key} to try must all be different, not {list(tried)}.")
            for settings in (grid.settings or {}, (grid.method_settings or {}).get(method, {})):
                if key in settings:
                    raise ConfigError(f"{key} is either set or tuned, not both.")
    return by_method


def _own_values(method: str) -> dict[str, Sequence[Any]]:
    """What a method declares as ``tuned_settings``, by dotted key."""
    return {key if "." in key else f"method.{key}": v for key, v in method_class(method).tuned_settings.items()}


def _check_equal_numbers(by_method: Mapping[str, Values]) -> None:
    """With more trials a method is more likely to find a good setting by chance."""
    numbers = {name: prod(map(len, values.values())) if values else 0 for name, values in by_method.items()}
    most = max(numbers.values())
    for name, number in numbers.items():
        if number != most:
            raise ConfigError(
                f"{name} declares {number or 'no'} combinations to try (tuned_settings), others {most}; leave it out, "
                "or give the same values for all by --tune KEY=V1,V2."
            )


def _has_setting(method: str, key: str) -> bool:
    """Whether a setting belongs to this method, or to every run that is trained."""
    if not key.startswith("method."):
        return method_class(method).learns_by_gradient
    return key.removeprefix("method.") in method_class(method).Settings.model_fields
