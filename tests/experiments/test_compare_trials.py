"""Trials of methods that are fitted, and of learning rates; warnings that name what they are about."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data import ArraySource
from scdh.data.open import open_source
from scdh.errors import ConfigError
from scdh.evaluation import evaluate_distances
from scdh.experiments.compare import rates, tuning
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.rates import RATES
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.tables import conditions_table
from scdh.metrics.cosine import cosine_distances
from scdh.runs import scoring
from scdh.runs.folder import RunFolder
from scdh.training import trials
from scdh.training.plan import plan_run
from scdh.training.search import FULL_LENGTH_TRIALS
from tests.cli.commands import fails, must, run
from tests.experiments.comparisons import modification_times, read_json

VALIDATION = {"data.validation_per_class": 8, "data.train_per_class": 20}


def quiet(_: str) -> None:
    pass


def times_of_models_and_scores(folder: Path) -> dict[str, int]:
    times = modification_times(folder)
    return {name: when for name, when in times.items() if name.endswith((".safetensors", "log.csv", "scores.json"))}


@pytest.mark.slow
def test_a_fitted_method_with_settings_to_tune_gets_as_many_trials(tmp_path, monkeypatch):
    settings = {**VALIDATION, "train.epochs": 1, "net.hidden": [16]}
    grid, source = Grid(("scdh", "sdh", "itq"), (8,), (0,), "demo-digits", settings=settings), open_source("digits")
    to_try = tuning.values_to_try("grid", grid)
    assert set(to_try) == {"scdh", "sdh"}
    scored, score_ranking = [], scoring.score_ranking

    def watch(hasher: Any, *arguments: Any, leave_one_out: bool, **options: Any) -> Any:
        scored.append(leave_one_out)
        return score_ranking(hasher, *arguments, leave_one_out=leave_one_out, **options)

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "score_ranking", watch)
        tuned, results = tuning.tune(grid, source, tmp_path, to_try, tmp_path / "features", quiet)
    assert scored == [True] * 9  # validation rows among themselves: no query
    assert {name: len(result.tried) for name, result in results.items()} == {"scdh": 9, "sdh": 9}
    tried = {tuple(trial.values.values()): trial.validation_map or 0.0 for trial in results["sdh"].tried}
    assert len(set(tried.values())) > 1
    best = max(tried, key=tried.__getitem__)
    assert tuple(tuned.method_settings["sdh"].values()) == best
    before = times_of_models_and_scores(tmp_path / "tuning")
    assert tuning.tune(grid, source, tmp_path, to_try, tmp_path / "features", quiet)[1] == results
    assert times_of_models_and_scores(tmp_path / "tuning") == before

    compared = compare_methods(grid, source, tmp_path, tuned="grid", find_rates=False)
    column = conditions_table(compared).columns.index("trials")
    trials = {line[0]: line[column] for line in conditions_table(compared).lines}
    assert trials == {"SCDH": "9", "SDH": "9", "ITQ": "–"}
    config = compared.configs["sdh-8-0"]["method"]
    assert (config["sigma"], config["nu"]) == best


def test_values_for_all_reach_a_fitted_method_that_has_the_setting() -> None:
    grid = Grid(("scdh", "sdh", "lsh"), (8,), (0,), "demo-digits")
    assert tuning.values_to_try({"method.lam": [0.1, 1.0]}, grid) == {
        "scdh": {"method.lam": [0.1, 1.0]},
        "sdh": {"method.lam": [0.1, 1.0]},
    }
    assert set(tuning.values_to_try({"train.lr_head": [0.1, 1.0]}, grid)) == {"scdh"}
    with pytest.raises(ConfigError, match=r"None of the methods has the setting train\.lr_head"):
        tuning.values_to_try({"train.lr_head": [0.1, 1.0]}, Grid(("sdh",), (8,), (0,), "demo-digits"))


@pytest.fixture
def source() -> ArraySource:
    """More classes than codes of 3 bits, so that CSQ says that some share a centre."""
    labels = np.arange(240) % 12
    return ArraySource(np.random.default_rng(0).normal(size=(240, 8)), labels, name="made-up")


GRID = Grid(("csq",), (3,), (0,), settings={"data.source": "made-up", "net.hidden": [8], "train.epochs": 1})


def test_warnings_of_trials_name_their_method(source: ArraySource, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(trials, "LEAST_VALIDATION_ROWS", 12)
    monkeypatch.setattr(rates, "RATES", (0.001, 0.01))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        rates.own_rates(GRID, source, tmp_path, tmp_path, lambda _: None)
    assert shown
    assert all(str(warning.message).startswith("trials of csq-3-0: ") for warning in shown)


pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
SMALL = "compare scdh dpsh itq --data digits --bits 16 --seeds 0 --epochs 2 --set net.hidden=[16]"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fair") / "out"
    must(f"{SMALL} --out {out}")
    return out


@pytest.mark.slow
def test_each_trained_method_has_the_rate_that_its_own_trials_found(compared: Path) -> None:
    results = read_json(compared / "compare.json")
    assert set(results["tuned"]) == {"scdh", "dpsh"}
    assert {len(tuned["tried"]) for tuned in results["tuned"].values()} == {len(RATES) + FULL_LENGTH_TRIALS}
    for method, tuned in results["tuned"].items():
        assert set(RATES) <= {trial["values"]["train.lr_head"] for trial in tuned["tried"]}
        rate = tuned["chosen"]["train.lr_head"]
        assert rate in {trial["values"]["train.lr_head"] for trial in tuned["tried"]}
        config = results["configs"][f"{method}-16-0"]
        assert config["train"]["lr_head"] == config["train"]["lr_trunk"] == rate
        assert config["train"]["epochs"] == 2
        assert config["method"].get("alpha") in (None, 0.5)  # only the rate is tried: all methods get equal trials


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("--set train.momentum=0.5", "train.momentum (0.9, not 0.5)"),
        ("--set dpsh:train.lr_head=0.05", "dpsh-16-0' has another train.lr_head"),
        ("--set scdh:method.mu=0.3", "scdh-16-0' has another method.mu"),
    ],
)
def test_other_settings_are_rejected_before_any_trial(compared: Path, other: str, said: str) -> None:
    before = modification_times(compared)
    message = fails(f"{SMALL} {other} --out {compared}")
    assert said in message
    assert "give the same settings, or choose another folder" in message
    assert modification_times(compared) == before


@pytest.mark.slow
def test_the_floats_are_a_line_of_every_table_of_map(compared: Path) -> None:
    source = open_source("digits")
    protocol = RunFolder(compared / "cells" / "scdh-16-0").protocol(source)
    queries, database = source.features[protocol.query], source.features[protocol.database]
    expected = evaluate_distances(
        cosine_distances(queries, database), source.labels[protocol.query], source.labels[protocol.database]
    )
    floats = read_json(compared / "compare.json")["floats"]
    assert floats["map"] == pytest.approx(expected.map)
    assert floats["precision_at_10"] == pytest.approx(expected.precision_at_k(10))
    assert f"| 64 floats, cosine (256 bytes) | {expected.precision_at_k(10):.3f} |" in (
        compared / "compare.md"
    ).read_text("utf-8")
    assert (floats["width"], floats["bytes"], floats["seeds"]) == (64, 256, [0])
    line = f"| 64 floats, cosine (256 bytes) | {expected.map:.3f} |"
    assert line in (compared / "compare.md").read_text("utf-8")
    assert "64 floats, cosine" in (compared / "compare.html").read_text("utf-8")


@pytest.mark.slow
def test_rates_that_are_given_or_not_wanted_are_not_tried(tmp_path: Path) -> None:
    must(f"{SMALL} --set train.lr_head=0.01 --set dpsh:train.lr_trunk=0.01 --out {tmp_path}/a")
    assert read_json(tmp_path / "a/compare.json")["tuned"] == {}
    (tmp_path / "rate.toml").write_text("train.lr_head = 0.01\ntrain.lr_trunk = 0.01\n")
    must(f"{SMALL} --config {tmp_path}/rate.toml --out {tmp_path}/c --set net.backbone=features")
    assert read_json(tmp_path / "c/compare.json")["tuned"] == {}
    code, out, _ = run(f"{SMALL} --no-trials --out {tmp_path}/b")
    assert code == 0
    assert not (tmp_path / "b/rates").exists()
    assert "SCDH" in out
    assert "first 10" in out
    assert "`scdh train` also finds" in out
    assert "method.alpha for SCDH" in " ".join(out.split())


def test_settings_are_those_that_training_takes_without_trials() -> None:
    rng = np.random.default_rng(0)
    hot = (rng.random((300, 5)) < 0.4).astype(np.uint8)
    source = ArraySource(rng.normal(size=(300, 4)), hot, name="made-up")
    given = {"data.source": "made-up", "method.bits": 8}
    trained = plan_run(load_config(overrides=given), trials=False, source=source).config.with_method_defaults()
    compared = Grid(("scdh",), (8,), (0,), settings={"data.source": "made-up"}).cell(source, "scdh", 8, 0).config
    assert compared.method == trained.method
    assert compared.method.own["form"] != "softmax"  # the labels of these rows combine
    steps = {"epoch_steps": compared.train.epoch_steps}  # written out, so that equal epochs are equal steps
    assert (
        compared.model_dump()
        == trained.model_copy(update={"train": trained.train.model_copy(update=steps)}).model_dump()
    )
