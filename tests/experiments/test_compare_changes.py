"""Equal tuning, queries scored once at the end, and reports of what changed later: settings, defaults, versions."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scdh.data.open import open_source
from scdh.errors import ConfigError, TrainingError
from scdh.experiments.compare import cell as cells
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.changes import Compared, changes_since, first_scored
from scdh.experiments.compare.conditions import conditions
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.rates import own_rates
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.tuning import values_to_try
from scdh.methods.registry import method_class
from scdh.model.hasher import Hasher
from scdh.runs.choices import Choices, Trial
from scdh.runs.folder import RunFolder
from scdh.settings import Settings
from scdh.storage.json_files import write_table
from scdh.training.trials import TrialRunner
from tests.cli.commands import fails, must, run
from tests.experiments.comparisons import read_json

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
QUICK = "--set net.hidden=[8] --set train.batch_size=128 --set data.validation_per_class=5"
TUNED = f"compare scdh csq lsh --preset demo-digits --epochs 3 {QUICK} --bits 8 --seeds 0,1 --tune grid"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with a tuned grid that was stopped when it had trained some runs, and then went on."""
    out = tmp_path_factory.mktemp("tuned") / "out"
    run_plan, calls = cells.run_plan, []

    def stop(plan: Any, folder: Path, *arguments: Any, **options: Any) -> Any:
        calls.append(folder)
        if len(calls) == 21:  # after 18 trials and two runs
            raise KeyboardInterrupt
        return run_plan(plan, folder, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "run_plan", stop)
        code, _, _ = run(f"{TUNED} --out {out}")
    assert code == 130
    assert len(list(out.glob("cells/*/model"))) == 2
    assert not list(out.glob("**/scores*.json"))
    assert first_scored(out) is None
    logs = {file: file.stat().st_mtime_ns for file in out.glob("**/log.csv")}
    must(f"{TUNED} --out {out}")
    assert {file: file.stat().st_mtime_ns for file in logs} == logs  # what was trained is not trained again
    return out


@pytest.mark.slow
def test_each_method_has_as_many_trials_over_its_own_ranges(tuned: Path) -> None:
    results = read_json(tuned / "compare.json")
    assert set(results["tuned"]) == {"scdh", "csq"}
    for method, found in results["tuned"].items():
        assert len(found["tried"]) == 9
        own = method_class(method).tuned_settings
        ranges = {key if "." in key else f"method.{key}": values for key, values in own.items()}
        assert {key for trial in found["tried"] for key in trial["values"]} == set(ranges)
        assert all(value in ranges[key] for trial in found["tried"] for key, value in trial["values"].items())
        scores = {str(trial["values"]): trial["validation_map"] for trial in found["tried"]}
        assert scores[str(found["chosen"])] == max(scores.values())
        for seed in (0, 1):
            settings = read_json(tuned / f"cells/{method}-8-{seed}/config.json")["config"]
            for key, value in found["chosen"].items():
                group, name = key.split(".")
                assert settings[group][name] == value
    page = (tuned / "compare.html").read_text("utf-8")
    assert "All 18 trials" in page
    table = (tuned / "compare.md").read_text("utf-8").split("## What each method had")[1].split("##")[0]
    trials = {line.split(" | ")[0].strip("| "): line.split(" | ")[3] for line in table.splitlines() if " | " in line}
    assert (trials["SCDH"], trials["CSQ"], trials["LSH"]) == ("9", "9", "–")


@pytest.mark.slow
def test_a_comparison_that_was_stopped_before_it_was_scored_has_no_mark(tuned: Path) -> None:
    assert read_json(tuned / "compare.json")["changed_after_scoring"] == []
    assert "queries were scored once" in (tuned / "compare.html").read_text("utf-8")
    assert "Changed after" not in (tuned / "compare.md").read_text("utf-8")


@pytest.mark.slow
def test_the_last_epoch_and_the_weights_are_those_of_the_runs(tuned: Path) -> None:
    results = read_json(tuned / "compare.json")
    for entry in results["cells"]:
        run_folder = RunFolder(tuned / "cells" / entry["cell"])
        if entry["method"] == "lsh":
            assert entry.get("map_last") is None
            assert entry.get("learned_weights") is None
            continue
        with open(run_folder.log, newline="") as handle:
            scores = [float(row["validation_map"]) for row in csv.DictReader(handle)]
        assert entry["best_epoch"] == scores.index(max(scores)) + 1
        if entry["best_epoch"] == 3:
            assert entry["map_last"] == entry["map"]
        else:
            last = json.loads((run_folder.path / "scores_last.json").read_text())
            assert entry["map_last"] == last["map"]
            assert (
                last["model"]
                == Hasher.load(run_folder.last).fingerprint()
                != Hasher.load(run_folder.model).fingerprint()
            )
        own = {"scdh": 8 * 10 + 10 + 8 * 10, "csq": 0}[entry["method"]]  # fc8 and centres
        assert entry["own_weights"] == own
        assert entry["learned_weights"] == 64 * 8 + 8 + 8 * 8 + 8 + own  # hidden layer and hash layer
    line = next(row for row in results["rows"] if row["method"] == "scdh")
    maps = [entry["map_last"] for entry in results["cells"] if entry["method"] == "scdh"]
    assert line["map_last"] == pytest.approx(sum(maps) / 2)
    assert f"± {line['map_std']:.3f} | {line['map_last']:.3f} |" in (tuned / "compare.md").read_text("utf-8").replace(
        "**", ""
    )


def test_a_model_of_the_last_epoch_that_is_better_is_scored_too(tmp_path: Path, monkeypatch: Any) -> None:
    """Validation says that the first epoch is best: the headline is its model, and the last one has its own score."""
    scores = iter([0.9, 0.2, 0.1])
    monkeypatch.setattr("scdh.training.data.TrainingData.validate", lambda *_: next(scores))
    fast = "--set train.lr_head=0.05 --set train.lr_trunk=0.05"
    must(f"compare scdh --preset demo-digits --epochs 3 {QUICK} {fast} --bits 8 --seeds 0 --out {tmp_path}/c")
    (entry,) = read_json(tmp_path / "c/compare.json")["cells"]
    assert entry["best_epoch"] == 1
    folder = tmp_path / "c/cells/scdh-8-0"
    assert entry["map_last"] == read_json(folder / "scores_last.json")["map"] != entry["map"]
    assert Hasher.load(folder / "last").info["epochs"] == 3


def test_all_runs_are_trained_before_any_query_is_scored(tmp_path: Path, monkeypatch: Any) -> None:
    order: list[str] = []
    run_plan, score = cells.run_plan, cells.score_run
    monkeypatch.setattr(cells, "run_plan", lambda *a, **k: (order.append("train"), run_plan(*a, **k))[1])
    monkeypatch.setattr(cells, "score_run", lambda *a, **k: (order.append("score"), score(*a, **k))[1])
    must(f"compare itq pca lsh --preset demo-digits --bits 8 --seeds 0,1 --out {tmp_path}/c")
    assert order == ["train"] * 6 + ["score"] * 6


@pytest.mark.slow
def test_what_changes_after_scoring_is_reported(tuned: Path, tmp_path: Path) -> None:
    out = shutil.copytree(tuned, tmp_path / "out")
    _, printed, notes = run(f"{TUNED.replace('lsh', 'lsh itq')} --out {out}")
    assert read_json(out / "compare.json")["changed_after_scoring"] == ["Methods added: itq."]
    assert "Changed after queries were scored: Methods added: itq." in printed
    assert "Methods added: itq." in notes  # before the work
    for file in ("compare.md", "compare.html"):
        assert "Methods added: itq." in (out / file).read_text("utf-8")
    assert "queries were scored once" not in (out / "compare.html").read_text("utf-8")
    must(f"{TUNED} --out {out} --topk 50")
    assert read_json(out / "compare.json")["changed_after_scoring"] == [
        "MAP counts the first 50 items, not the usual ones."
    ]
    must(f"{TUNED} --out {out}")
    assert read_json(out / "compare.json")["changed_after_scoring"] == []  # as it was


@pytest.mark.slow
def test_a_run_that_is_made_again_with_other_settings_is_reported(tmp_path: Path) -> None:
    command = f"compare itq lsh --preset demo-digits --bits 8 --seeds 0,1 --out {tmp_path}/c"
    must(command)
    code, _, message = run(f"{command} --set itq:method.iterations=3")
    assert (code, "method.iterations" in message) == (2, True)  # still an error if there is a run
    shutil.rmtree(tmp_path / "c/cells/itq-8-0")
    shutil.rmtree(tmp_path / "c/cells/itq-8-1")
    must(f"{command} --set itq:method.iterations=3")
    assert read_json(tmp_path / "c/compare.json")["changed_after_scoring"] == ["itq: method.iterations 50 → 3."]


@pytest.mark.slow
def test_tuning_after_scoring_is_reported_and_keeps_the_earlier_run(tmp_path: Path) -> None:
    command = f"compare scdh --preset demo-digits --epochs 2 {QUICK} --bits 8 --seeds 0 --out {tmp_path}/c"
    must(command)
    _, _, notes = run(f"{command} --tune train.lr_head=0.01,0.02")  # the usual one is 0.002
    assert "it was moved to" in notes
    assert read_json(tmp_path / "c/earlier/scdh-8-0-1/config.json")["config"]["train"]["lr_head"] == 0.002
    content = read_json(tmp_path / "c/compare.json")
    rate = content["configs"]["scdh-8-0"]["train"]["lr_head"]
    assert rate in (0.01, 0.02)
    assert content["changed_after_scoring"] == [
        "scdh: 2 trials of train.lr_head after that.",
        f"scdh: train.lr_head 0.002 → {rate}.",
    ]


def test_scores_that_evaluate_left_count_as_scored(tmp_path: Path) -> None:
    must(f"compare lsh --preset demo-digits --bits 8 --seeds 0 --out {tmp_path}/c")
    (tmp_path / "c/scored.json").unlink()  # as if the run had been scored by itself
    must(f"compare lsh pca --preset demo-digits --bits 8 --seeds 0 --out {tmp_path}/c")
    assert read_json(tmp_path / "c/compare.json")["changed_after_scoring"] == ["Methods added: pca."]


def test_a_damaged_record_is_one_sentence(tmp_path: Path) -> None:
    command = f"compare lsh --preset demo-digits --bits 8 --seeds 0 --out {tmp_path}/c"
    must(command)
    (tmp_path / "c/scored.json").write_text('{"methods": []}')
    assert "scored.json' does not hold what was compared" in fails(command)


def test_changes_are_named() -> None:
    first = Compared(["scdh", "lsh"], [8], [0], None, {"scdh": [{"train.lr_head": 1}]})
    first.settings = {
        "scdh-8-0": {"method.name": "scdh", "net.hidden": [8], "train.lr_head": 1, "seed": 0},
        "lsh-8-0": {"method.name": "lsh", "net.hidden": [], "seed": 0},
    }
    assert changes_since(None, first) == []
    assert changes_since(first, first) == []
    now = replace(first, seeds=[0, 1], settings=dict(first.settings))
    now.settings["scdh-8-1"] = {"method.name": "scdh", "net.hidden": [8], "train.lr_head": 1, "seed": 1}
    assert changes_since(first, now) == ["Seeds added: 1."]
    now.settings["scdh-8-1"] |= {"train.lr_head": 2, "method.alpha": 3, "train.new": 1}
    assert changes_since(first, now) == [
        "Seeds added: 1.",
        "scdh: method.alpha default → 3.",
        "scdh: train.lr_head 1 → 2.",
    ]
    other = replace(first, methods=["dsh"], bits=[16], tried={}, settings={})
    other.settings["dsh-16-0"] = {"method.name": "dsh", "net.hidden": [4], "train.lr_head": 7, "seed": 0}
    assert changes_since(first, other) == [
        "Methods added: dsh.",
        "Methods left out: scdh, lsh.",
        "Bits added: 16.",
        "Bits left out: 8.",
        "dsh: net.hidden [8] → [4].",
    ]
    fewer = replace(first, tried={"scdh": []}, topk=10)
    assert changes_since(first, fewer) == [
        "MAP counts the first 10 items, not the usual ones.",
        "scdh: 1 trial of train.lr_head before that, now left out.",
    ]


def test_own_ranges_must_be_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(("scdh", "dsh", "lsh"), (8,), (0,), "demo-digits")
    values = values_to_try("grid", grid)
    assert list(values) == ["scdh", "dsh"]
    assert all(key.startswith("method.") for of_method in values.values() for key in of_method)
    for settings, said in (({}, "no combinations"), ({"margin": (1.0, 2.0)}, "2 combinations")):
        monkeypatch.setattr(method_class("dsh"), "tuned_settings", settings)
        with pytest.raises(ConfigError, match=f"dsh declares {said}.*others 9"):
            values_to_try("grid", grid)
    of_run = {"train.weight_decay": tuple(n / 10 for n in range(9))}
    monkeypatch.setattr(method_class("dsh"), "tuned_settings", of_run)
    assert list(values_to_try("grid", grid)["dsh"]) == ["train.weight_decay"]
    monkeypatch.setattr(method_class("dsh"), "tuned_settings", {"train.epochs": tuple(range(1, 10))})
    with pytest.raises(ConfigError, match="same for every method"):
        values_to_try("grid", grid)


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
    assert first.methods == ["lsh"]


def test_rates_of_other_settings_are_found_again(
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
    replace(kept, to_try=["train.lr_head"], made=[], trials=kept.trials[:4]).save(file)  # stopped after four
    assert count_new() == 6
    set_default("dsdh", "eta", 0.011)
    assert count_new() == 10
