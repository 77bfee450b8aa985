"""Learning rates of a network that learns as a whole: five short trials for every method, if they are asked for.

A trial of a whole network takes minutes to hours, so there are few: the rates of head and trunk as given, and both a
third and three times as high; then, with the best of these, the head's alone a third and three times as high. Losses
have outputs of different size, so the ratio of the two rates that suits one does not suit all. Each trial has a third
of the epochs, which is together less than two more runs for every method.
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
from scdh.experiments.compare.results import Trial, TuningResult
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
    runner = CellRunner(source, out / "tuning", cache=cache)

    def tried_rates(factors: list[tuple[str, float, float]], title: str) -> dict[str, list[Trial]]:
        cells = [_trial(grid, source, name, seed, trunk, head) for name, trunk, head in factors]
        return run_trials([(cell, _values(cell)) for cell in cells], runner, title)

    def best(name: str, tried: list[Trial]) -> Trial:
        return best_of(tried, usual_values(grid, source, name, grid.middle_bits(name), seed))

    both = tried_rates([(name, factor, factor) for name in names for factor in FACTORS], "learning rates")
    found = {name: FACTORS[tried.index(best(name, tried))] for name, tried in both.items()}
    of_head = tried_rates(
        [(name, found[name], found[name] * factor) for name in names for factor in FACTORS[1:]], "rates of the heads"
    )
    by_method = {name: [*tried, *of_head[name]] for name, tried in both.items()}
    method_settings = {name: dict(settings) for name, settings in (grid.method_settings or {}).items()}
    results: dict[str, TuningResult] = {}
    for name, tried in by_method.items():
        bits, chosen = grid.middle_bits(name), best(name, tried)
        rates = {key: chosen.values[key] for key in (RATE, TRUNK_RATE)}
        method_settings[name] = {**method_settings.get(name, {}), **rates}
        results[name] = TuningResult(chosen=chosen.values, bits=bits, seed=seed, tried=tried)
        score = chosen.validation_map
        why = "as every run diverged" if score is None else f"validation MAP {score:.3f}"
        notify(f"{name}: {', '.join(f'{key}={value:g}' for key, value in rates.items())}, {why} at {bits} bits")
    return replace(grid, method_settings=method_settings), results


def _trial(grid: Grid, source: Source, method: str, seed: int, trunk: float, head: float) -> Cell:
    """A short run at so many times the usual rates of trunk and head."""
    bits = grid.middle_bits(method)
    usual = grid.cell(source, method, bits, seed).config.train
    rates = {RATE: _rounded(usual.lr_head * head), TRUNK_RATE: _rounded(usual.lr_trunk * trunk)}
    own = {**(grid.method_settings or {}).get(method, {}), **rates, "train.validate_every": 1}
    short = max(1, round(usual.epochs / SHORTER))
    cell = replace(grid, method_settings={method: own}).cell(source, method, bits, seed, short)
    return replace(cell, tried=f"rates={trunk:g}" if trunk == head else f"rates={trunk:g},head={head:g}")


def _values(cell: Cell) -> dict[str, Any]:
    settings = cell.config.train
    return {RATE: settings.lr_head, TRUNK_RATE: settings.lr_trunk, EPOCHS: settings.epochs}


def _rounded(rate: float) -> float:
    """Three digits: 3 × 0.0005 is not 0.0015 in floating point."""
    return float(f"{rate:.3g}")
