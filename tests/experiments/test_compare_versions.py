"""Runs and trials in the folder of a comparison whose defaults, rates or versions differ from the present ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scdh.data.open import open_source
from scdh.errors import TrainingError
from scdh.experiments.compare import rates
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.changes import first_scored
from scdh.experiments.compare.conditions import conditions
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.rates import RATES, own_rates
from scdh.experiments.compare.run import compare_methods
from scdh.methods.registry import method_class
from scdh.runs.choices import Choices, Trial
from scdh.runs.folder import RunFolder
from scdh.settings import Settings
from scdh.storage.json_files import write_table
from scdh.training.trials import TrialRunner
from tests.experiments.comparisons import read_json

GRID = Grid(("itq", "lsh"), (8,), (0,), "demo-digits")
SetDefault = Callable[[str, str, Any], None]


@pytest.fixture
def set_default(monkeypatch: pytest.MonkeyPatch) -> SetDefault:
    """Gives a setting of a method another default, as a later version may."""

    def set_to(method: str, key: str, value: Any) -> None:
        known = method_class(method).Settings
        annotations = {key: known.model_fields[key].annotation}
        changed: type[Settings] = type("Changed", (known,), {"__annotations__": annotations, key: value})
        monkeypatch.setattr(method_class(method), "Settings", changed)

    return set_to


def test_another_default_is_rejected_and_reported(tmp_path: Path, set_default: SetDefault) -> None:
    source, itq = open_source("digits"), RunFolder(tmp_path / "cells/itq-8-0")
    compare_methods(GRID, source, tmp_path)
    assert read_json(itq.config_file)["config"]["method"]["iterations"] == 50
    assert compare_methods(GRID, source, tmp_path).changed_after_scoring == []
    set_default("itq", "iterations", 7)
    with pytest.raises(TrainingError, match=r"itq-8-0' has another method\.iterations \(50, not 7\)"):
        compare_methods(GRID, source, tmp_path)
    as_before = replace(GRID, method_settings={"itq": {"method.iterations": 50}})
    assert compare_methods(as_before, source, tmp_path).changed_after_scoring == []
    itq.path.rename(tmp_path / "elsewhere")
    results = compare_methods(GRID, source, tmp_path)
    assert results.changed_after_scoring == ["itq: method.iterations 50 → 7."]
    assert results.configs["itq-8-0"]["method"]["iterations"] == 7


def test_a_trial_with_another_default_is_rejected(tmp_path: Path, set_default: SetDefault) -> None:
    source = open_source("digits")
    runner = CellRunner(source, tmp_path / "tuning")
    runner.train(GRID.cell(source, "itq", 8, 0))
    set_default("itq", "iterations", 7)
    with pytest.raises(TrainingError, match=r"another method\.iterations \(50, not 7\)"):
        runner.train(GRID.cell(source, "itq", 8, 0))


def test_settings_of_a_run_that_is_done_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source("digits")
    runner = CellRunner(source, tmp_path)
    done, failed = (GRID.cell(source, name, 8, 0) for name in ("itq", "lsh"))
    runner.train(done)
    runner.train(failed)
    (tmp_path / "cells/lsh-8-0/model/model.safetensors").unlink()
    write_table(runner.run_of(failed).failure, {"sentence": "It diverged."})
    files = [runner.run_of(cell).config_file for cell in (done, failed)]
    before = [file.read_bytes() for file in files]
    monkeypatch.setattr("scdh.runs.folder.versions", lambda: {"scdh": "later"})
    for cell in (done, failed):
        assert runner.train(cell, wait=True)
    runner.score(done)
    assert [file.read_bytes() for file in files] == before


def test_all_versions_that_trained_or_scored_runs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source("digits")
    for version, seeds in (("1.0", (0,)), ("2.0", (0, 1))):
        for module in ("folder", "run_scores"):
            monkeypatch.setattr(f"scdh.runs.{module}.versions", lambda v=version: {"scdh": v, "numpy": "3"})
        results = compare_methods(replace(GRID, seeds=seeds), source, tmp_path)
    assert results.versions == {"scdh": "1.0 and 2.0", "numpy": "3"}
    assert conditions(results)["Versions"] == "scdh 1.0 and 2.0, numpy 3."


def test_scores_of_the_last_epoch_count_as_scored(tmp_path: Path) -> None:
    source = open_source("digits")
    CellRunner(source, tmp_path).train(GRID.cell(source, "lsh", 8, 0))
    run = RunFolder(tmp_path / "cells/lsh-8-0")
    write_table(run.scores("validation"), {})
    assert first_scored(tmp_path) is None
    write_table(run.scores(network="last"), {})
    first = first_scored(tmp_path)
    assert first is not None
    assert first.methods == ["lsh"]


def test_rates_of_another_search_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_default: SetDefault
) -> None:
    settings = {"data.validation_per_class": 8, "data.train_per_class": 20, "train.epochs": 40, "net.hidden": [8]}
    grid, source = Grid(("dsdh",), (8,), (0,), "demo-digits", settings=settings), open_source("digits")
    made: list[float] = []

    def run(_: TrialRunner, values: dict[str, Any], *__: object) -> Trial:
        made.append(values["train.lr_head"])
        return Trial(values, 0.5 - abs(values["train.lr_head"] - 0.01), 0.1, 1.0, 0.2)

    monkeypatch.setattr(TrialRunner, "run", run)

    def count_new() -> int:
        made.clear()
        _, results = own_rates(grid, source, tmp_path, tmp_path / "features", lambda _: None)
        assert results["dsdh"].chosen["train.lr_head"] == 0.01
        assert len(results["dsdh"].tried) == 10
        return len(made)

    assert count_new() == 10
    assert count_new() == 0
    file = tmp_path / "rates/dsdh.json"
    kept = Choices.load(file)
    assert kept is not None
    assert kept.config.method.own["eta"] == 0.0055
    # By another rule: the trials are the same, only the choice is another.
    replace(kept, made=[replace(choice, value=0.002) for choice in kept.made]).save(file)
    assert count_new() == 0
    # One trial more, or stopped after five, of which the last is of a rate that is not tried today.
    further = replace(kept.trials[0], values={**kept.trials[0].values, "train.lr_head": 0.5})
    replace(kept, trials=[*kept.trials, further]).save(file)
    assert count_new() == 0
    replace(kept, to_try=["train.lr_head"], made=[], trials=[*kept.trials[:4], further]).save(file)
    assert count_new() == 6
    with monkeypatch.context() as patch:
        patch.setattr(rates, "RATES", (*RATES[:3], 0.005, *RATES[4:]))
        assert count_new() == 7  # the first three are the same
    set_default("dsdh", "eta", 0.011)
    assert count_new() == 10
