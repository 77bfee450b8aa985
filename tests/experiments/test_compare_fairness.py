"""Every trained method of a comparison has a learning rate of its own, and the floats behind the codes are shown."""

from pathlib import Path

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.open import open_source
from scdh.evaluation import evaluate_distances
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.rates import RATES
from scdh.metrics.cosine import cosine_distances
from scdh.runs.folder import RunFolder
from scdh.training.plan import plan_run
from scdh.training.search import FULL_LENGTH_TRIALS
from tests.cli.commands import must, run
from tests.experiments.comparisons import modification_times, read_json

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
def test_the_same_command_again_repeats_nothing(compared: Path) -> None:
    before = modification_times(compared / "cells") | modification_times(compared / "rates")
    must(f"{SMALL} --out {compared}")
    assert modification_times(compared / "cells") | modification_times(compared / "rates") == before


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
    code, _, message = run(f"{SMALL} {other} --out {compared}")
    assert code == 2
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
