"""Trials of methods that are fitted, and of learning rates of networks that learn as a whole."""

from pathlib import Path
from typing import Any

import pytest

from scdh import progress
from scdh.data.open import open_source
from scdh.errors import ConfigError
from scdh.experiments.compare import tuning
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.rates import FACTORS, own_rates, rates_of_whole_networks
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.tables import conditions_table
from scdh.runs import scoring
from tests.experiments.comparisons import modification_times

VALIDATION = {"data.validation_per_class": 8, "data.train_per_class": 20}
WHOLE = {
    **{"data.source": "digits-images", "net.backbone": "small_conv", "net.image_size": 8, "net.freeze": False},
    **{"train.epochs": 6, "train.epoch_steps": 2, "train.batch_size": 50, "train.workers": 0},
    **{"train.optimiser": "adamw", "train.lr_head": 0.01, "train.lr_trunk": 0.001, "train.validate_every": 3},
}


def quiet(_: str) -> None:
    pass


def times_of_models_and_scores(folder: Path) -> dict[str, int]:
    times = modification_times(folder)
    return {name: when for name, when in times.items() if name.endswith((".safetensors", "log.csv", "scores.json"))}


@pytest.mark.slow
def test_a_fitted_method_with_settings_to_tune_gets_as_many_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert tuned.method_settings is not None
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


@pytest.mark.slow
def test_whole_networks_get_short_trials_of_both_rates_and_of_the_heads_alone(tmp_path: Path) -> None:
    given = {**VALIDATION, **WHOLE}
    rates = {key: given.pop(key) for key in ("train.lr_head", "train.lr_trunk")}
    grid = Grid(("scdh", "dsh", "lsh"), (8,), (0,), settings=given)
    source = open_source("digits-images")
    usual = grid.cell(source, "scdh", 8, 0).config.train
    results = compare_methods(grid, source, tmp_path / "out", tuned="rates")
    assert set(results.tuned) == {"scdh", "dsh"}
    for method, tuned in results.tuned.items():
        tried = [(t.values["train.lr_head"], t.values["train.lr_trunk"]) for t in tuned.tried]
        assert tried[:3] == [pytest.approx((usual.lr_head * f, usual.lr_trunk * f)) for f in FACTORS]
        scores = dict(zip(tried, [trial.validation_map or 0.0 for trial in tuned.tried], strict=True))
        head, trunk = max(tried[:3], key=scores.__getitem__)
        assert tried[3:] == [pytest.approx((head * f, trunk), rel=0.01) for f in FACTORS[1:]]
        assert {trial.values["train.epochs"] for trial in tuned.tried} == {2}
        assert all(trial.validation_map is not None for trial in tuned.tried)  # validated though every third is usual
        config = results.configs[f"{method}-8-0"]["train"]
        assert (config["epochs"], config["validate_every"]) == (6, 3)
        assert {key: config[key.removeprefix("train.")] for key in rates} == {key: tuned.chosen[key] for key in rates}
        assert scores[tuned.chosen["train.lr_head"], tuned.chosen["train.lr_trunk"]] == max(scores.values())
    before = times_of_models_and_scores(tmp_path / "out")
    again = compare_methods(grid, source, tmp_path / "out", tuned="rates")
    assert again.tuned == results.tuned
    assert again.changed_after_scoring == []
    assert times_of_models_and_scores(tmp_path / "out") == before


def test_rates_that_are_given_are_kept(tmp_path: Path) -> None:
    grid = Grid(("scdh",), (8,), (0,), settings={**VALIDATION, **WHOLE})
    with pytest.raises(ConfigError, match="each is given"):
        rates_of_whole_networks(grid, open_source("digits-images"), tmp_path, tmp_path, quiet)


@pytest.mark.slow
def test_a_log_file_tells_of_features_and_trials_before_the_first_method_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "FIRST_GAP", 0.0)
    settings = {**WHOLE, **VALIDATION, "net.freeze": True, "train.epochs": 1}
    settings = {key: value for key, value in settings.items() if not key.startswith("train.lr_")}
    grid, source = Grid(("scdh",), (8,), (0,), settings=settings), open_source("digits-images")
    own_rates(grid, source, tmp_path, tmp_path / "features", quiet)
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("features of the frozen trunk 1/") and "images/s" in line for line in lines)
    assert any(line.startswith("trying settings: 1 of at most ") for line in lines)
    assert not any(line.startswith("epoch ") for line in lines)
