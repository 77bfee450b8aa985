"""Values tried for every method, the same ones or as many of its own; the best is chosen by MAP of validation rows,
never by queries. A method that is fitted takes part where it has settings to tune (SDH).
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
from scdh.experiments.compare.results import Trial, TuningResult
from scdh.methods.declared import declared
from scdh.progress import track
from scdh.runs.choices import flat_settings

Values = Mapping[str, Sequence[Any]]  # setting by dotted key → values to try
OWN_VALUES: Literal["grid"] = "grid"  # as many combinations for each method, of the values that it declares


def tune(
    grid: Grid,
    source: Source,
    out: Path,
    values: Mapping[str, Values],
    cache: Path,
    notify: Callable[[str], None],
    found: Mapping[str, TuningResult] | None = None,
) -> tuple[Grid, dict[str, TuningResult]]:
    """Choose settings for each method that has values to try.

    Args:
        grid: the comparison; the middle one of its lengths of codes and the first of its seeds decide for all.
        source: its data.
        out: its folder; runs of tuning go into ``out/tuning``.
        values: method → setting → values to try, of :func:`values_to_try`; all combinations are tried.
        cache: folder for the features of a frozen network.
        notify: is called with one line about each method.
        found: what was chosen before, such as learning rates; it is added to what is chosen here.

    Returns:
        The grid with the best values, and what was tried for each method.
    """
    seed = grid.seeds[0]
    trials: list[tuple[Cell, dict[str, Any]]] = []
    for method, of_method in values.items():
        for combination in product(*of_method.values()):
            tried = dict(zip(of_method, combination, strict=True))
            trials.append((_trial_cell(grid, source, method, grid.middle_bits(method), seed, tried), tried))

    by_method = run_trials(trials, CellRunner(source, out / "tuning", cache=cache), "tuning")
    method_settings = {name: dict(settings) for name, settings in (grid.method_settings or {}).items()}
    results: dict[str, TuningResult] = {}
    for method, tried_here in by_method.items():
        bits = grid.middle_bits(method)
        best = best_of(tried_here, usual_values(grid, source, method, bits, seed))
        method_settings[method] = {**method_settings.get(method, {}), **best.values}
        before = (found or {}).get(method)
        results[method] = TuningResult(
            chosen={**({} if before is None else before.chosen), **best.values},
            bits=bits,
            seed=seed,
            tried=[*([] if before is None else before.tried), *tried_here],
        )
        chosen = ", ".join(f"{key}={value}" for key, value in best.values.items()) or "nothing to tune"
        reason = f"by validation MAP at {bits} bits" if best.validation_map is not None else "as every run diverged"
        notify(f"{method}: {chosen}, {reason}")
    return replace(grid, method_settings=method_settings), results


def run_trials(trials: Sequence[tuple[Cell, dict[str, Any]]], runner: CellRunner, title: str) -> dict[str, list[Trial]]:
    """Train every trial and score it on validation rows: method → its trials, in the order given.

    Args:
        trials: the run of each, and the values that it tries.
        runner: trains them, together with other processes that have the same comparison.
        title: of the progress bar.
    """
    for cell, _ in track(trials, len(trials), title, "runs"):
        runner.train(cell)
    by_method: dict[str, list[Trial]] = {}
    for cell, tried in trials:
        runner.train(cell, wait=True)  # those that another process has begun
        trial = Trial(values=tried, validation_map=runner.validation_map(cell))
        by_method.setdefault(cell.method, []).append(trial)
    return by_method


def best_of(trials: Sequence[Trial], usual: Mapping[str, Any]) -> Trial:
    """The one with the highest validation MAP; of equal ones, and where all diverged, that with the most usual values.

    Args:
        trials: of one method.
        usual: its settings without tuning, by dotted key.
    """

    def rank(trial: Trial) -> tuple[float, int]:
        score = -1.0 if trial.validation_map is None else trial.validation_map
        return score, sum(usual.get(key) == value for key, value in trial.values.items())

    return max(trials, key=rank)


def usual_values(grid: Grid, source: Source, method: str, bits: int, seed: int) -> dict[str, Any]:
    """Settings of a run without tuning by dotted key, those of the method in full."""
    return flat_settings(grid.config(method, bits, seed, source).with_method_defaults().model_dump(mode="json"))


def _trial_cell(grid: Grid, source: Source, method: str, bits: int, seed: int, tried: dict[str, Any]) -> Cell:
    settings = {method: {**(grid.method_settings or {}).get(method, {}), **tried}}
    text = ",".join(f"{key}={value}" for key, value in tried.items())
    cell = replace(grid, method_settings=settings).cell(source, method, bits, seed)
    return replace(cell, tried=text.replace("/", "_"))


def values_to_try(values: Values | Literal["grid"], grid: Grid) -> dict[str, Values]:
    """Method → setting → values to try, for every method that has some; what cannot be tried is refused.

    Args:
        values: setting → values, tried for every method that has the setting; or "grid": each method's own.
        grid: the comparison.
    """
    tunable = [name for name in grid.methods if declared(name).learns_by_gradient or declared(name).tuned_settings]
    if not tunable:
        raise ConfigError("There is nothing to tune: none of the methods is trained, or has values to try.")
    if values == OWN_VALUES:
        by_method: dict[str, Values] = {name: _own_values(name) for name in tunable}
        _refuse_unequal(by_method)
    else:
        assert not isinstance(values, str)
        by_method = {name: {key: values[key] for key in values if _has_setting(name, key)} for name in tunable}
        by_method = {name: own for name, own in by_method.items() if own or declared(name).learns_by_gradient}
        for key in values:
            if not any(key in of_method for of_method in by_method.values()):
                raise ConfigError(f"None of the methods has the setting {key} to tune.")
    for method, of_method in by_method.items():
        check_not_shared(of_method)
        for key, tried in of_method.items():
            grid.config(method, grid.bits[0], grid.seeds[0], None, **{key: tried[0]})  # refuses an unknown key
            if len({str(value) for value in tried}) != len(tried):
                raise ConfigError(f"The values of {key} to try must all be different, not {list(tried)}.")
            for settings in (grid.settings or {}, (grid.method_settings or {}).get(method, {})):
                if key in settings:
                    raise ConfigError(f"{key} is either set or tuned, not both.")
    return by_method


def _own_values(method: str) -> dict[str, Sequence[Any]]:
    """What a method declares as ``tuned_settings``, by dotted key."""
    return {key if "." in key else f"method.{key}": v for key, v in declared(method).tuned_settings.items()}


def _refuse_unequal(by_method: Mapping[str, Values]) -> None:
    """Whoever may try more is more likely to find something, by chance alone."""
    numbers = {name: prod(map(len, values.values())) if values else 0 for name, values in by_method.items()}
    most = max(numbers.values())
    for name, number in numbers.items():
        if number != most:
            raise ConfigError(
                f"{name} declares {number or 'no'} combinations to try (tuned_settings), others {most}; leave it out, "
                "or give the same values for all by --tune KEY=V1,V2."
            )


def _has_setting(method: str, key: str) -> bool:
    """Whether a setting is one of this method's, or of every run that is trained."""
    if not key.startswith("method."):
        return declared(method).learns_by_gradient
    return key.removeprefix("method.") in declared(method).Settings.model_fields
