"""Run a comparison: every cell of a grid, which may be stopped and resumed; then one table of means over the seeds.

First settings are chosen, then all cells are trained, and only then are the queries of all cells scored. Nothing is
chosen by looking at queries: learning rates, tuned values and the best epoch are chosen by MAP of validation rows.
Several processes, even on several machines that share the folder, may run the same comparison: each takes cells that no
other has begun.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from scdh.config import TrainSettings
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.experiments.compare.cell import CellRunner, float_row, float_scores
from scdh.experiments.compare.changes import (
    changes_since,
    check_before_trials,
    check_same_settings,
    compared_now,
    first_scored,
    keep_scored,
    move_runs_with_other_values,
)
from scdh.experiments.compare.grid import Cell, Grid
from scdh.experiments.compare.rates import has_no_rate, left_to_train, own_rates
from scdh.experiments.compare.results import Budget, CellResult, ComparedData, ComparisonResults, TuningResult
from scdh.experiments.compare.summary import shared_target, summarise
from scdh.experiments.compare.tuning import OWN_VALUES, Values, tune, values_to_try
from scdh.extras import versions
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.folder import RunFolder
from scdh.training.search import RATE
from scdh.training.trials import TRUNK_RATE

FEW_STEPS = 100


def compare_methods(
    grid: Grid,
    source: Source,
    out: Path,
    *,
    topk: int | None = None,
    label_column: str | None = None,
    tuned: Mapping[str, Sequence[Any]] | Literal["grid"] | None = None,
    target: float | None = None,
    cache: Path | None = None,
    find_rates: bool = True,
    floats: bool = True,
    notify: Callable[[str], None] = lambda _: None,
    after_run: Callable[[], None] = lambda: None,
) -> ComparisonResults:
    """Run what is left of a comparison, and write its results to ``out/compare.json``.

    Args:
        grid: methods, lengths of codes, seeds and settings.
        source: the data.
        out: folder of the comparison.
        topk: items that count for MAP; None takes the usual number for this data (mostly all).
        label_column: for data with several label columns, the one that decides what is relevant; None: all labels.
        tuned: setting → values to try for every method; "grid": as many combinations of each method's own.
        target: validation MAP whose training time is reported; None takes that of :func:`shared_target`.
        cache: folder for the features of a frozen network, also of other comparisons; None takes ``out/features``.
        find_rates: find a learning rate by trials for every method that has none given.
        floats: also score the vectors that the codes were made of.
        notify: is called with lines about the progress.
        after_run: is called after each run and each trial of ``tuned`` that was trained.

    Returns:
        The results, as written.

    Raises:
        ConfigError: if the grid, the data or the options do not fit together.
        TrainingError: if ``out`` holds runs of the same names with other settings (not those that tuning chose).
    """
    cache = cache or out / "features"
    grid.check().check_methods(source)
    protocol = grid.split(source, grid.seeds[0]).protocol
    if not len(protocol.query):
        raise ConfigError("The data have no queries to compare with; set data.query_per_class (not data.split=all).")
    if target is not None and not len(protocol.validation):
        raise ConfigError("The time to a validation MAP needs validation rows: add --set data.validation_per_class=20.")
    values = values_to_try(tuned, grid) if tuned else {}
    if tuned and not len(protocol.validation):
        raise ConfigError("Tuning needs validation rows: add --set data.validation_per_class=20, or another number.")
    given, tuning = grid, dict[str, TuningResult]()
    runner = CellRunner(source, out, topk, cache, grid.known, label_column)
    check_before_trials(grid.cells(source), runner, _keys_to_choose(grid, values, find_rates))
    if find_rates and (tuned == OWN_VALUES or RATE not in (tuned or {})):
        grid, tuning = own_rates(grid, source, out, cache, notify)
    if values:
        grid, tuning = tune(grid, source, out, values, cache, notify, tuning, after_run)
    cells = grid.cells(source)
    tuned_keys = _tuned_keys(given, grid)
    check_same_settings(cells, runner, tuned_keys)
    now = compared_now(grid, cells, topk, tuning)
    changed = changes_since(first_scored(out), now)
    for sentence in changed:
        notify(f"Changed after queries were scored, which the results will say: {sentence}")
    move_runs_with_other_values(out, cells, runner, tuned_keys, notify)
    if not _train_cells(cells, runner, notify, after_run):
        keep_scored(out, now, is_scored=False)
        _score_cells(cells, runner, floats, notify)
        keep_scored(out, now, is_scored=True)
    missing = [cell.name for cell in cells if not runner.is_scored(cell)]
    scored = [cell for cell in cells if cell.name not in missing]
    cell_results = [result for cell in scored for result in runner.results(cell)]
    if target is None:
        target = shared_target(cell_results)
    results = ComparisonResults(
        data=_compared_data(source, protocol),
        methods=list(grid.methods),
        bits=list(grid.bits),
        seeds=list(grid.seeds),
        budget=_budget(cells),
        protocols={str(result.seed): result.protocol for result in cell_results if result.protocol is not None},
        network=_network(cells),
        tuned=tuning,
        target=target,
        failed={result.cell: result.failed for result in cell_results if result.failed is not None},
        missing=missing,
        definition=common_definition(cell_results),
        rows=summarise(cell_results, target),
        floats=float_row(scored, runner) if floats else None,
        cells=cell_results,
        configs={cell.name: cell.config.model_dump(mode="json") for cell in cells if cell.seed == grid.seeds[0]},
        versions=_versions([runner.run_of(cell) for cell in scored]),
        fidelity={name: _fidelity(name) for name in grid.methods},
        left_to_train=left_to_train(grid, source, tuning),
        changed_after_scoring=changed,
    )
    results.write(out)
    return results


def _train_cells(
    cells: Sequence[Cell], runner: CellRunner, notify: Callable[[str], None], after_run: Callable[[], None]
) -> list[str]:
    """Train the cells that are not trained; returns the names of those that another process is still training."""
    steps = max((_steps(settings) for settings in _train_settings(cells)), default=FEW_STEPS)
    if steps < FEW_STEPS:
        notify(f"{steps} optimiser steps are too few to tell methods apart; raise --epochs or train.epoch_steps.")
    left = [cell for cell in cells if not runner.is_trained(cell)]
    if left and len(left) < len(cells):
        notify(f"{len(cells) - len(left)} of {len(cells)} runs are trained already.")
    for cell in track(left, len(left), "runs", "runs"):
        runner.train(cell)
        after_run()
    for cell in left:  # once more: another process may have taken one and been killed since
        if not runner.is_trained(cell):
            runner.train(cell)
    missing = [cell.name for cell in cells if not runner.is_trained(cell)]
    if missing:
        notify(
            f"Another process is still training {', '.join(missing)}; queries are scored when all runs are trained, "
            "by that "
            "process or by the same command."
        )
    return missing


def _score_cells(cells: Sequence[Cell], runner: CellRunner, floats: bool, notify: Callable[[str], None]) -> None:
    """Score the cells that are not scored, all of which are trained."""
    left = [cell for cell in cells if not runner.is_scored(cell)]
    for cell in track(left, len(left), "scoring", "runs"):
        if runner.score(cell) and floats:
            float_scores(cell, runner)  # now, as the model is in memory
    for cell in left:  # as above
        if not runner.is_scored(cell):
            runner.score(cell)
    if missing := [cell.name for cell in cells if not runner.is_scored(cell)]:
        notify(f"Another process is still scoring {', '.join(missing)}; the same command shows them once it is ready.")


def _keys_to_choose(grid: Grid, values: Mapping[str, Values], find_rates: bool) -> dict[str, set[str]]:
    """Method → settings that trials are going to choose for it."""
    rates = {name: {RATE, TRUNK_RATE} for name in grid.methods if find_rates and has_no_rate(grid, name)}
    return {name: rates.get(name, set()) | set(values.get(name, ())) for name in grid.methods}


def _tuned_keys(given: Grid, tuned: Grid) -> dict[str, set[str]]:
    """Method → settings that were chosen for it by trials."""
    before, after = given.method_settings or {}, tuned.method_settings or {}
    return {name: set(settings) - set(before.get(name, {})) for name, settings in after.items()}


def _fidelity(name: str) -> str:
    about = method_class(name).about
    return ": ".join(part for part in (about.fidelity, about.differs) if part)


def _versions(runs: Sequence[RunFolder]) -> dict[str, str]:
    """Package → its version, or all versions if runs were trained or scored with different ones."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        scoring = run.saved_scores().get("versions", {}) if run.scores().exists() else {}
        for package, version in (*run.saved_versions().items(), *scoring.items()):
            found.setdefault(package, {})[version] = None
    return {package: " and ".join(each) for package, each in found.items()} or versions()


def _train_settings(cells: Sequence[Cell]) -> list[TrainSettings]:
    return [cell.config.train for cell in cells if method_class(cell.method).learns_by_gradient]


def _network(cells: Sequence[Cell]) -> dict[str, Any]:
    """The network of the trained methods; a method that is fitted reads features, without the hidden layers."""
    trained = (cell for cell in cells if method_class(cell.method).learns_by_gradient)
    return next(trained, cells[0]).config.net.model_dump(mode="json")


def _steps(settings: TrainSettings) -> int:
    return settings.epochs * (settings.epoch_steps or 0)


def _budget(cells: Sequence[Cell]) -> Budget:
    trained = _train_settings(cells)
    epochs, steps = ({settings.epochs for settings in trained}, {_steps(settings) for settings in trained})
    return Budget(epochs=sorted(epochs), steps=sorted(steps))


def common_definition(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """The definition of a ranking by Hamming distance, if there is one, because only this has a radius."""
    definitions = [result.definition for result in results if result.definition is not None]
    return max(definitions, key=lambda definition: "radius" in definition, default=None)


def _compared_data(source: Source, protocol: Protocol) -> ComparedData:
    return ComparedData(
        name=source.name,
        fingerprint=source.fingerprint(),
        labels=source.num_classes,
        multi_label=source.multi_label,
        train=len(protocol.train),
        unlabelled=len(protocol.unlabelled),
        validation=len(protocol.validation),
        query=len(protocol.query),
        database=len(protocol.database),
    )
