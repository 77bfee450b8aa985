"""Which runs a comparison is made of: settings, rejections, equal times, tuning."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scdh.data.open import open_source
from scdh.errors import ConfigError
from scdh.experiments.compare import cell, tuning
from scdh.experiments.compare.grid import Grid, split_settings
from scdh.experiments.compare.results import TriedValues
from scdh.methods.registry import method_class
from scdh.runs import scoring
from tests.cli.commands import fails, must, run
from tests.experiments.comparisons import SMALL, VALIDATION, read_json

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
DIGITS = open_source("digits")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (f"scdhh {SMALL}", "did you mean 'scdh'"),
        (f"scdh scdh {SMALL}", "all different"),
        (f"scdh {SMALL} --bits 8,8", "all different"),
        (f"scdh {SMALL} --bits 8,x", "--bits"),
        (f"scdh {SMALL} --bits 0", "--bits"),
        (f"dqn scdh {SMALL} --bits 12,20", "dqn has multiples of 8 bits only"),
        (f"scdh {SMALL} --seeds -1", "--seeds"),
        (f"scdh {SMALL} --set train.epochs=3", "given twice"),
        (f"scdh {SMALL} --set train.lr_head=1 --set train.lr_head=2", "given twice"),
        (f"scdh {SMALL} --topk 0", "--topk"),
        (f"scdh {SMALL} --target 2", "--target"),
        (f"scdh {SMALL} --target 0.5", "validation"),
        (f"scdh {SMALL} --tune train.lr_head", "--tune looks like"),
        (f"scdh {SMALL} --tune train.lr_head=1,,2", "--tune looks like"),
        (f"scdh {SMALL} {VALIDATION} --tune train.lr_head=1,1", "different"),
        (f"scdh {SMALL} --tune train.lr_head=0.1,1", "data.validation_per_class"),
        (f"scdh {SMALL} {VALIDATION} --tune method.nothing=0.1,1", "method.nothing"),
        (f"scdh {SMALL} {VALIDATION} --tune train.lr_haed=0.1,1", "did you mean 'train.lr_head'"),
        (f"scdh {SMALL} {VALIDATION} --tune train.epochs=1,2", "same for every method"),
        (f"scdh {SMALL} {VALIDATION} --tune train.lr_head=1,2 --set scdh:train.lr_head=1", "set or tuned"),
        (f"itq {SMALL} {VALIDATION} --tune train.lr_head=1,2", "nothing to tune"),
        (f"itq {SMALL} {VALIDATION} --tune grid", "nothing to tune"),
        (f"scdh {SMALL} --tune grid", "data.validation_per_class"),
        (f"scdh {SMALL} {VALIDATION} --tune grid --tune train.lr_head=1,2", "--tune grid"),
        (f"scdh sdh {SMALL} {VALIDATION} --tune method.zeta=1,2", "None of the methods has the setting method.zeta"),
        (f"scdh {SMALL} {VALIDATION} --tune grid --set method.alpha=1", "set or tuned"),
        (f"scdh {SMALL} {VALIDATION} --tune grid --set scdh:method.mu=1", "set or tuned"),
        (f"scdh {SMALL} --set dsh:train.lr_head=1", "dsh"),
        (f"scdh {SMALL} --set scdh:data.train_per_class=5", "same for every method"),
        (f"scdh {SMALL} --set scdh:method.bits=5", "same for every method"),
        (f"scdh {SMALL} --set method.bits=5", "--bits"),
        (f"scdh {SMALL} --set scdh:train.batch_size=8", "same for every method"),
        (f"scdh {SMALL} --set scdh:train.patience=2", "same for every method"),
        (f"scdh {SMALL} --set scdh:train.validation_database=train", "same for every method"),
        (f"scdh mt_scdh {SMALL} --set train.ema=0.9", "train.ema=0"),
        (f"scdh {SMALL} --set data.split=all", "no queries"),
        (f"{SMALL}", "Name the methods"),
        ("scdh", "--data"),
    ],
)
def test_wrong_arguments_are_rejected_in_one_sentence(arguments: str, expected: str, tmp_path: Path) -> None:
    message = fails(f"compare {arguments} --out {tmp_path}/c")
    assert expected in message
    assert message.count("\n") == 1
    assert not list(tmp_path.glob("c/cells/*"))


def test_settings_of_one_method_reach_only_it() -> None:
    common, by_method = split_settings(["train.momentum=0.5", "dsh:train.lr_head=0.3", "data.root=a:b"])
    assert (common, by_method) == (["train.momentum=0.5", "data.root=a:b"], {"dsh": ["train.lr_head=0.3"]})
    grid = Grid(("scdh", "dsh"), (8,), (0,), "demo-digits", method_settings={"dsh": {"train.lr_head": 0.3}}).check()
    rates = [grid.cell(DIGITS, name, 8, 0).config.train.lr_head for name in grid.methods]
    assert rates == [0.002, 0.3]


def test_methods_that_cannot_learn_from_such_labels_are_rejected_first(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, source = Grid(("scdh", "dsh"), (8,), (0,), "demo-digits"), open_source("digits")
    grid.check_methods(source)
    dsh = method_class("dsh")
    monkeypatch.setattr(dsh, "about", replace(dsh.about, labels=("multi",)))
    with pytest.raises(ConfigError, match="dsh learns from multi-label data only"):
        grid.check_methods(source)


@pytest.mark.slow
def test_tuning_goes_by_validation_and_uses_no_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"train.epochs": 4, "data.validation_per_class": 5}
    grid = Grid(("scdh", "lsh"), (8, 12, 16), (3,), "demo-digits", settings=chosen)
    source, values = open_source("digits"), {"train.lr_head": [1e-9, 0.002, 0.01, 1e30]}
    to_try = tuning.values_to_try(values, grid)
    assert to_try == {"scdh": values}

    def poison(*_: Any, **__: Any) -> None:
        raise AssertionError("queries were scored")

    with monkeypatch.context() as patch:
        patch.setattr(cell, "score_run", poison)
        patch.setattr(scoring, "score_ranking", poison)
        tuned, results = tuning.tune(grid, source, tmp_path, to_try, tmp_path / "features", lambda _: None)
    tried = {trial.values["train.lr_head"]: trial.validation_map or 0.0 for trial in results["scdh"].tried}
    assert list(tried) == values["train.lr_head"]
    assert len(set(tried.values())) == 4
    best = max(tried, key=tried.__getitem__)
    assert tuned.method_settings == {"scdh": {"train.lr_head": best}}
    with open(tmp_path / f"tuning/cells/scdh-12-3-train.lr_head={best}/log.csv", newline="") as handle:
        assert max(float(row["validation_map"]) for row in csv.DictReader(handle)) == tried[best]
    assert (results["scdh"].bits, results["scdh"].seed) == (12, 3)
    for folder in (tmp_path / "tuning/cells").iterdir():  # scores that are in the folder for other reasons do not count
        assert not (folder / "scores.json").exists()
        (folder / "scores.json").write_text(json.dumps({"map": 0.0 if str(best) in folder.name else 1.0}))
    assert tuning.tune(grid, source, tmp_path, to_try, tmp_path / "features", lambda _: None)[1] == results


@pytest.mark.slow
def test_tuned_values_are_used_and_listed(tmp_path: Path) -> None:
    must(f"compare scdh lsh {SMALL} {VALIDATION} --bits 8 --seeds 0 --tune train.lr_head=1e-9,0.01 --out {tmp_path}/c")
    content = read_json(tmp_path / "c/compare.json")
    assert content["configs"]["scdh-8-0"]["train"]["lr_head"] == content["tuned"]["scdh"]["chosen"]["train.lr_head"]
    for trial in content["tuned"]["scdh"]["tried"]:
        line = f"| scdh | train.lr\\_head = {trial['values']['train.lr_head']} | "
        assert line in (tmp_path / "c/compare.md").read_text("utf-8")
        assert f"{trial['validation_map']:.3f}" in (tmp_path / "c/compare.html").read_text("utf-8")


def test_a_broken_plug_in_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = tmp_path / "bad-0.1.dist-info"
    offer.mkdir()
    (offer / "METADATA").write_text("Name: bad\nVersion: 0.1\n")
    (offer / "entry_points.txt").write_text("[scdh.methods]\nbroken = nowhere:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    _, output, notes = run("methods")
    assert "mt_scdh" in output
    assert "'broken' of package 'bad' cannot be loaded" in notes


def test_settings_are_chosen_at_the_middle_length_or_the_nearest_that_a_method_has() -> None:
    grid = Grid(("scdh", "dqn"), (48, 12, 24, 32), (0,))
    assert (grid.middle_bits("scdh"), grid.middle_bits("dqn")) == (32, 32)
    shorter = replace(grid, bits=(8, 12, 20))
    assert (shorter.middle_bits("scdh"), shorter.middle_bits("dqn")) == (12, 8)
    assert shorter.left_out() == ["DQN has multiples of 8 bits only, so none of 12, 20."]
    assert not replace(grid, bits=(8, 16)).left_out()


def test_a_method_without_a_length_of_codes_is_compared_at_the_others(tmp_path: Path) -> None:
    command = f"compare dqn itq {SMALL} {VALIDATION} --bits 12,16 --seeds 0 --no-trials --out {tmp_path}/x"
    code, out, notes = run(command)
    assert code == 0
    assert "DQN has multiples of 8 bits only, so none of 12." in notes
    assert {file.name for file in (tmp_path / "x/cells").iterdir()} >= {"dqn-16-0", "itq-12-0", "itq-16-0"}
    assert not (tmp_path / "x/cells/dqn-12-0").exists()
    assert "DQN has no codes of 12 bits." in (tmp_path / "x/compare.md").read_text("utf-8")
    assert "–" in next(line for line in out.splitlines() if line.strip().startswith("DQN")).split()[1]


def test_values_as_a_share_of_the_bits_follow_the_length() -> None:
    grid = Grid(("dsh", "dtsh"), (12, 48), (0,), "demo-digits", method_settings={"dtsh": {"method.margin": "r/4"}})
    assert [grid.cell(DIGITS, "dtsh", bits, 0).config.method.own["margin"] for bits in grid.bits] == [3, 12]
    assert grid.cell(DIGITS, "dsh", 12, 0).config.method.own["margin"] is None


def test_equal_trials_take_the_usual_values() -> None:
    """Not the first ones, which are an end of the range; also where every trial diverged."""
    values = [{"method.a": a, "method.b": b} for a in (1, 2, 3) for b in (None, 5)]
    usual = {"method.a": 2, "method.b": 5, "train.epochs": 3}
    for score in (0.5, None):
        trials = [TriedValues(values=tried, validation_map=score) for tried in values]
        assert tuning.best_of(trials, usual).values == {"method.a": 2, "method.b": 5}
    better = [TriedValues(values=tried, validation_map=0.1 * n) for n, tried in enumerate(values)]
    assert tuning.best_of(better, usual).values == values[-1]
