"""Learning rates of a network that learns as a whole: three short trials for every method, if they are asked for.

A trial of a whole network takes minutes to hours, so there are few: the rates of head and trunk as given, and both a
third and three times as high, for a third of the epochs. That is about one more run for every method.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.grid import Cell, Grid
from scdh.experiments.compare.rates import has_no_rate
from scdh.experiments.compare.results import TuningResult
from scdh.experiments.compare.tuning import best_of, run_trials, usual_values
from scdh.training.search import EPOCHS, RATE
from scdh.training.trials import TRUNK_RATE

WHOLE_RATES: Literal["rates"] = "rates"
FACTORS = (1.0, 0.3, 3.0)  # of equal ones, and where all diverge, the first is taken: the rates as given
SHORTER = 3  # times; of a trial


def rates_of_whole_networks(
    grid: Grid, source: Source, out: Path, cache: Path, notify: Callable[[str], None]
) -> tuple[Grid, dict[str, TuningResult]]:
    """The grid with both rates for each method that has none given, and what was tried.

    Args:
        grid: the comparison; the middle one of its lengths of codes and the first of its seeds decide for all.
        source: its data.
        out: its folder; trials go into ``out/tuning``.
        cache: folder for features; a network that learns has none.
        notify: is called with one line about each method.
    """
    seed = grid.seeds[0]
    names = [name for name in grid.methods if has_no_rate(grid, name)]
    if not names:
        raise ConfigError("--tune rates has no rates to find: each is given, or belongs to a method without training.")
    if source.kind != "images" or grid.config(names[0], grid.bits[0], seed, source).net.freeze:
        raise ConfigError(
            "--tune rates is for networks that learn as a whole; on embeddings and frozen networks (net.freeze=true) "
            "ten trials find each method's rate without it."
        )
    cells = [_trial(grid, source, name, grid.middle_bits(name), seed, factor) for name in names for factor in FACTORS]
    trials = [(cell, _values(cell)) for cell in cells]
    by_method = run_trials(trials, CellRunner(source, out / "tuning", cache=cache), "learning rates")
    method_settings = {name: dict(settings) for name, settings in (grid.method_settings or {}).items()}
    results: dict[str, TuningResult] = {}
    for name, tried in by_method.items():
        bits = grid.middle_bits(name)
        best = best_of(tried, usual_values(grid, source, name, bits, seed))
        rates = {key: best.values[key] for key in (RATE, TRUNK_RATE)}
        method_settings[name] = {**method_settings.get(name, {}), **rates}
        results[name] = TuningResult(chosen=best.values, bits=bits, seed=seed, tried=tried)
        why = "as every run diverged" if best.validation_map is None else f"validation MAP {best.validation_map:.3f}"
        notify(f"{name}: {', '.join(f'{key}={value:g}' for key, value in rates.items())}, {why} at {bits} bits")
    return replace(grid, method_settings=method_settings), results


def _trial(grid: Grid, source: Source, method: str, bits: int, seed: int, factor: float) -> Cell:
    usual = grid.cell(source, method, bits, seed).config.train
    rates = {RATE: _rounded(usual.lr_head * factor), TRUNK_RATE: _rounded(usual.lr_trunk * factor)}
    own = {**(grid.method_settings or {}).get(method, {}), **rates, "train.validate_every": 1}
    short = max(1, round(usual.epochs / SHORTER))
    cell = replace(grid, method_settings={method: own}).cell(source, method, bits, seed, short)
    return replace(cell, tried=f"rates={factor:g}")


def _values(cell: Cell) -> dict[str, Any]:
    settings = cell.config.train
    return {RATE: settings.lr_head, TRUNK_RATE: settings.lr_trunk, EPOCHS: settings.epochs}


def _rounded(rate: float) -> float:
    """Three digits: 3 × 0.0005 is not 0.0015 in floating point."""
    return float(f"{rate:.3g}")
