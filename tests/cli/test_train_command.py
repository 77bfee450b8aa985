"""`scdh train`: settings that suit the data, resuming, and the commands that it prints."""

import shlex
from pathlib import Path

import numpy as np
import pytest

import scdh
from scdh.cli.options import read_settings
from scdh.config import load_config
from scdh.data.protocol import Protocol
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError
from tests.cli.commands import must, run, run_json
from tests.data.data_files import write_pictures


def test_resume_takes_the_run_s_own_settings(work: Path) -> None:
    must(f"train --resume --out {work}/runs/digits")
    must(f"train --preset demo-digits --epochs 10 --resume --out {work}/runs/digits")
    code, _, err = run(f"train --preset demo-digits --epochs 9 --resume --out {work}/runs/digits")
    assert code == 2
    assert "train.epochs (10, not 9)" in err


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    must(f"train --preset demo-digits --epochs 2 --out {tmp_path}/run")
    must(f"train --resume --epochs 4 --out {tmp_path}/run")
    log = (tmp_path / "run/log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in log[1:]] == ["1", "2", "3", "4"]
    assert run_json(f"train --resume --out {tmp_path}/run --show-config --json")["train"]["epochs"] == 4


@pytest.mark.parametrize(("method", "epochs", "is_told"), [("scdh", 2, True), ("scdh", 20, False), ("csq", 2, False)])
def test_a_higher_alpha_is_advised_where_signs_lose_much(
    method: str, epochs: int, is_told: bool, tmp_path: Path
) -> None:
    text = must(f"train --preset demo-digits --method {method} --epochs {epochs} --out {tmp_path}/run")
    assert ("a higher method.alpha than 0.5" in text) == is_told


def test_embeddings_get_a_network_for_embeddings(work: Path) -> None:
    toml = must("train --data digits --bits 16 --epochs 3 --show-config")
    assert 'backbone = "features"  # suits embeddings' in toml
    assert "# where trials begin" in next(line for line in toml.splitlines() if line.startswith("lr_head"))
    (work / "again.toml").write_text(toml)
    again = load_config(file=work / "again.toml")
    assert again.net.backbone == "features"
    assert again.net.hidden == [512]
    assert again.method.bits == 16
    assert again.train.epochs == 3
    assert again.train.optimiser == "adamw"
    shown = run_json("train --data digits --bits 16 --epochs 3 --show-config --json")
    assert shown.pop("to_try") == ["train.lr_head", "method.alpha", "train.lr_trunk"]
    assert {"setting": "net.backbone", "value": "features", "reason": "suits embeddings"} in shown.pop("choices")
    assert again.model_dump(mode="json") == shown


def test_refit_trains_on_the_validation_rows_once_settings_are_chosen(tmp_path: Path) -> None:
    command = "train --data digits --bits 8 --epochs 1 --no-trials --refit"
    assert run_json(f"{command} --show-config --json")["data"]["train_on_validation"] is True
    out = must(f"{command} --out {tmp_path}/run")
    assert "Split: train 1,293 · validation 145" in out
    assert "--refit: the 145 validation rows train too." in out
    assert "Split: train 1,438 · validation 0" in must(f"evaluate {tmp_path}/run")
    must(f"train --resume --refit --out {tmp_path}/run")
    must(f"train --data digits --bits 8 --epochs 1 --no-trials --out {tmp_path}/plain")
    code, _, err = run(f"train --resume --refit --out {tmp_path}/plain")
    assert code == 2
    assert "--refit makes a run of its own" in err
    assert "no rows validate" in must(f"{command} --set data.validation_per_class=0 --out {tmp_path}/none")


def test_photos_get_settings_for_a_machine_without_a_gpu(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_pictures(photos, [f"apples/{i}.png" for i in range(11)] + [f"pears/{i}.png" for i in range(7)])
    settings = run_json(f"train --data {photos} --show-config --json")
    assert settings["net"]["freeze"] is True
    assert settings["train"]["optimiser"] == "adamw"
    assert settings["train"]["epochs"] == 300  # a pass is one step
    assert settings["method"]["alpha"] == 0.3
    assert settings["data"]["query_per_class"] is None  # fits the data
    whole = run_json(f"train --data {photos} --set net.freeze=false --set data.query_per_class=2 --show-config --json")
    assert whole["net"]["freeze"] is False
    assert (whole["train"]["optimiser"], whole["train"]["batch_size"]) == ("adamw", 32)
    assert whole["data"]["query_per_class"] == 2
    untrained = run_json(f"train --data {photos} --set net.backbone=small_conv --show-config --json")
    assert untrained["net"]["freeze"] is False


def test_the_next_commands_can_be_pasted(tmp_path: Path) -> None:
    np.save(tmp_path / "my vectors.npy", np.random.default_rng(0).normal(size=(40, 6)))
    np.save(tmp_path / "labels.npy", np.arange(40) % 2)
    command = ["train", "--data", f"{tmp_path}/my vectors.npy", "--labels", f"{tmp_path}/labels.npy", "--epochs", "1"]
    code, out, err = run([*command, "--out", f"{tmp_path}/a run"])
    assert code == 0, err
    lines = out.split("Next:\n")[1].splitlines()
    assert [line.split()[1] for line in lines] == ["evaluate", "report", "encode", "index", "search"]
    for line in lines:
        code, _, err = run(shlex.split(line)[1:])
        assert code == 0, err
    items = RowNames.load(tmp_path / "a run/all.codes", None, 40)
    assert items is not None
    assert items.labelled
    code, out, err = run([*command, "--set", "data.split=all", "--out", f"{tmp_path}/whole"])
    assert code == 0, err
    assert "scdh evaluate" not in out


def test_default_folder_and_json_of_train(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    content = run_json("train --preset demo-digits --epochs 1 --bits 8 --seed 3 --json")
    assert content["run"] == "runs/digits-scdh-8bit-seed3"
    assert Path(content["model"], "model.safetensors").exists()
    assert content["config"]["method"]["bits"] == content["bits"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("method", ["itq", "lsh"])
def test_a_fitted_method_is_trained_and_used_like_any_other(method: str, tmp_path: Path) -> None:
    trained, content = (
        tmp_path / "run",
        run_json(f"train --preset demo-digits --method {method} --bits 16 --out {tmp_path}/run --json"),
    )
    assert Path(content["model"], "model.safetensors").exists()
    assert {path.name for path in trained.iterdir()} == {".running", "config.json", "protocol.json", "model"}
    scores = run_json(f"evaluate {trained} --json")
    assert 0.2 < scores["map"] < 0.8
    assert "l_q" not in scores
    must(f"encode {trained} digits --out {tmp_path}/all.codes")
    must(f"encode {trained} digits --part query --out {tmp_path}/query.codes")
    must(f"encode {trained} digits --part database --out {tmp_path}/database.codes")
    files = run_json(f"evaluate --queries {tmp_path}/query.codes --database {tmp_path}/database.codes --json")
    assert files["map"] == scores["map"]
    must(f"index {tmp_path}/all.codes --out {tmp_path}/all.index")
    by_model = run_json(f"search {tmp_path}/all.index --model {trained} digits -k 1 --json")["queries"]
    assert len(by_model) == 1797
    assert all(query["hits"][0]["distance"] == 0 for query in by_model)
    code, _, err = run(f"train --resume --out {trained}")
    assert code == 0, err


def test_a_table_given_to_set_is_read_key_by_key() -> None:
    assert read_settings(["train={epochs=5, lr_head=0.1}"]) == {"train.epochs": 5, "train.lr_head": 0.1}
    with pytest.raises(ConfigError, match=r"train\.epochs is given twice by --set"):
        read_settings(["train={epochs=5}", "train.epochs=6"])


@pytest.fixture(scope="module")
def small_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("vectors") / "small.npz"
    rng = np.random.default_rng(0)
    labels = np.arange(1500) % 3
    X = rng.normal(size=(3, 8))[labels] + rng.normal(size=(1500, 8))
    np.savez(file, X=X.astype(np.float32), y=labels)
    return file


@pytest.mark.slow
def test_defaults_are_found_told_and_kept(small_vectors: Path, tmp_path: Path) -> None:
    out = must(f"train --data {small_vectors} --bits 16 --set net.hidden=[16] --epochs 3 --out {tmp_path}/run")
    assert "To be found by trials on the" in out
    assert "trials in" in out
    shown = run_json(f"train --resume --out {tmp_path}/run --show-config --json")
    reasons = {choice["setting"]: choice["reason"] for choice in shown["choices"]}
    assert {"train.lr_head", "method.alpha", "net.standardise"} <= reasons.keys()
    toml = must(f"train --resume --out {tmp_path}/run --show-config")
    (tmp_path / "again.toml").write_text(toml)
    again = run_json(f"train --config {tmp_path}/again.toml --out {tmp_path}/again --json")
    assert again["choices"] == []
    weights = [scdh.Hasher.load(tmp_path / name).fingerprint() for name in ("run", "again")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_refit_trains_on_the_validation_rows_too(small_vectors: Path, tmp_path: Path) -> None:
    command = f"train --data {small_vectors} --bits 16 --set net.hidden=[16] --epochs 2 --no-trials"
    held_out = run_json(f"{command} --out {tmp_path}/a --json")["split_counts"]
    counts = run_json(f"{command} --refit --out {tmp_path}/b --json")["split_counts"]
    refitted = Protocol.load(tmp_path / "b/protocol.json")
    assert counts == refitted.counts
    assert held_out["validation"] >= 5
    assert len(refitted.train) == held_out["train"] + held_out["validation"]
    assert len(refitted.validation) == 0
    assert len(refitted.query) == held_out["query"]
    must(f"evaluate {tmp_path}/b")
    must(f"train --resume --out {tmp_path}/b")


@pytest.mark.slow
def test_a_value_that_was_given_later_has_no_reason_of_the_earlier_one(small_vectors: Path, tmp_path: Path) -> None:
    must(f"train --data {small_vectors} --bits 8 --set train.batch_size=256 --no-trials --out {tmp_path}/run")
    show = f"train --resume --out {tmp_path}/run --show-config"
    line = next(line for line in must(show).splitlines() if line.startswith("epochs = "))
    epochs, _, reason = line.removeprefix("epochs = ").partition("  # ")
    assert "training rows" in reason
    must(f"train --resume --epochs {int(epochs) + 1} --out {tmp_path}/run")
    assert f"epochs = {int(epochs) + 1}" in must(show).splitlines()
