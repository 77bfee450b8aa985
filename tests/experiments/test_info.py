"""`scdh info` describes and `scdh check` verifies every kind of file; damage is named with what to do."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from scdh.codes import RANKING, Codes
from scdh.experiments.info.find import describe
from scdh.model.hasher import Hasher
from scdh.runs.choices import Choices, Trial
from scdh.runs.folder import RunFolder
from tests.cli.commands import fails, must, run, run_json
from tests.data.data_files import write_pictures
from tests.methods.harness import digits
from tests.training.settled import train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with scores and codes, with codes and an index next to it."""
    folder = tmp_path_factory.mktemp("in fo")
    train(digits("mt_scdh", 1, **{"data.validation_per_class": 5}), folder / "run", quiet=True)
    must(["evaluate", f"{folder}/run"])
    must(["encode", f"{folder}/run", "digits", "--out", f"{folder}/all.codes"])
    must(["index", f"{folder}/all.codes", "--out", f"{folder}/all.index"])
    return folder


def test_a_run(made):
    described = describe(str(made / "run"))
    facts = described.to_dict()
    assert (facts["kind"], facts["method"], facts["state"], facts["labels"]) == ("run", "mt_scdh", "finished", 10)
    assert facts["rows"] == {"train": 350, "validation": 50, "query": 200, "database": 1597}
    assert facts["scores"]["map"] == json.loads((made / "run/scores.json").read_text("utf-8"))["map"]
    assert facts["scores"]["floats_map"] > 0
    assert "scores_student" in facts
    assert facts["model_fingerprint"] == Hasher.load(made / "run").fingerprint()
    assert "codes/query.codes" in facts["codes_of_this_model"]
    assert "codes/query_student.codes" in facts["codes_of_other_models"]
    assert any("report" in command for command in facts["next"])
    for name in ("log.csv", "last.safetensors", "per_query.npz"):
        assert describe(str(made / "run" / name)).title == described.title
    text = must(["info", f"{made}/run"])
    assert "train 350, validation 50, query 200, database 1,597" in text
    assert "drawn by seed 0" in text  # in words, not by the name of the split


def test_a_run_that_was_stopped_in_its_trials(tmp_path):
    folder = tmp_path / "my run"
    Choices(digits("scdh", 1), ["train.lr_head"], trials=[Trial({"train.lr_head": 0.1}, 0.5, 0.1, 1.0)]).save(
        RunFolder(folder).choices_file
    )
    facts = describe(str(folder)).to_dict()
    assert (facts["kind"], facts["method"], facts["trials"]) == ("run", "scdh", 1)
    assert facts["state"] == "in its trials of settings, can be resumed"
    assert facts["next"] == [f"scdh train --resume --out '{folder}'"]
    assert describe(f"{folder}/choices.json").to_dict() == facts
    for command in (["evaluate"], ["report"], ["encode", "digits", "--out", f"{tmp_path}/x.codes"]):
        message = fails([command[0], str(folder), *command[1:]])
        assert f"finish it with `scdh train --resume --out '{folder}'`" in message


def test_a_comparison_that_is_not_finished(tmp_path):
    Choices(digits("scdh", 1), ["train.lr_head"]).save(tmp_path / "rates" / "scdh.json")
    facts = describe(str(tmp_path)).to_dict()
    assert (facts["kind"], facts["learning_rates_of"], facts["finished_runs"]) == ("comparison", ["scdh"], [])
    assert "the same command continues" in facts["title"]
    write_pictures(tmp_path / "photos", [f"{name}/{i}.png" for name in ("cells", "rates") for i in range(3)])
    assert describe(str(tmp_path / "photos")).kind == "data"  # classes of these names


def test_a_model_its_codes_and_their_index_know_each_other(made, monkeypatch):
    fingerprint = Hasher.load(made / "run").fingerprint()
    model = describe(str(made / "run" / "model")).to_dict()
    assert (model["kind"], model["bits"], model["encodes"]) == ("model", 32, "embeddings of width 64")
    assert model["model_fingerprint"] == fingerprint
    assert describe(str(made / "run/model/model.safetensors")).kind == "model"
    monkeypatch.chdir(made)
    codes, index = describe("all.codes").to_dict(), describe("all.index").to_dict()
    for facts in (codes, index):
        assert (facts["items"], facts["bits"], facts["labels"]) == (1797, 32, 10)
        assert (facts["model_fingerprint"], facts["made_by"]) == (fingerprint, "run")
    assert (codes["kind"], index["kind"]) == ("codes", "index")
    assert codes["bytes_per_item"] == 4
    assert any("--model run VECTORS.npy" in command for command in index["next"])  # no image: it takes embeddings
    (names,) = Path().glob("all.index.items-*")
    assert describe(str(names)).kind == "index"


def test_codes_without_names_or_model(tmp_path):
    Codes.from_bits(np.eye(4, dtype=np.uint8), metadata={RANKING: "own distance"}).save(tmp_path / "own.codes")
    facts = describe(str(tmp_path / "own.codes")).to_dict()
    assert facts["ranked_by"] == "own distance"
    assert facts["names"] is False
    assert "model_fingerprint" not in facts
    assert facts["next"] == [f"scdh index {tmp_path}/own.codes --out {tmp_path}/own.index"]
    Codes.from_bits(np.eye(4, dtype=np.uint8), metadata={"model": "0" * 16}).save(tmp_path / "lost.codes")
    assert "no run or model near this file" in must(f"info {tmp_path}/lost.codes")
    Codes.from_bits(np.zeros((0, 4), np.uint8)).save(tmp_path / "none.codes")
    must(f"index {tmp_path}/none.codes --out {tmp_path}/none.index")
    for name in ("none.codes", "none.index"):
        assert describe(str(tmp_path / name)).to_dict()["items"] == 0


@pytest.mark.slow
def test_a_split_and_a_comparison(made, compared):
    split = describe(str(made / "run/protocol.json")).to_dict()
    assert (split["kind"], split["rows"]["query"]) == ("split", 200)
    for name in (compared, compared / "compare.json"):
        facts = describe(str(name)).to_dict()
        assert facts["kind"] == "comparison"
        assert facts["map"]
        assert "info" in facts["next"][0]
    cell = sorted((compared / "cells").iterdir())[0]
    assert describe(str(cell)).kind == "run"


def test_data_of_every_kind(tmp_path):
    write_pictures(tmp_path / "ph otos ü", [f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(2)])
    np.savez(tmp_path / "v.npz", X=np.zeros((3, 2), np.float32), y=np.array([0, 1, -1]))
    photos, vectors = (describe(str(tmp_path / name)).to_dict() for name in ("ph otos ü", "v.npz"))
    assert (photos["kind"], photos["rows"], photos["items"], photos["labels"]) == ("data", 4, "images", 2)
    assert (vectors["rows"], vectors["width"], vectors["with_a_label"]) == (3, 2, 2)
    assert f"scdh train --data '{tmp_path}/ph otos ü' --bits 32" in photos["next"]
    assert run_json("info digits --json")["rows"] == 1797
    np.savez(tmp_path / "unlabelled.npz", X=np.zeros((3, 2), np.float32))
    commands = describe(str(tmp_path / "unlabelled.npz")).to_dict()["next"]
    assert f"scdh train --data {tmp_path}/unlabelled.npz --method itq --bits 32" in commands


def test_failed_and_unfinished_runs(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run")
    run_folder = RunFolder(tmp_path / "run")
    shutil.rmtree(run_folder.model)
    run_folder.checkpoint.unlink()
    assert describe(str(run_folder)).facts["state"] == "not finished"
    run_folder.failure.write_text(json.dumps({"sentence": "The loss became NaN."}), "utf-8")
    described = describe(str(run_folder))
    assert (described.facts["state"], described.facts["failure"]) == ("failed", "The loss became NaN.")
    assert described.commands == []


@pytest.mark.parametrize(
    "name", ["nothing", "notes.txt", "other.json", "broken.json", "broken.codes", "empty", "no.npz"]
)
def test_unknown_things_are_one_sentence(name, tmp_path):
    (tmp_path / "empty").mkdir()
    for file, text in (("notes.txt", "hello"), ("other.json", '{"a": 1}'), ("broken.json", "{"), ("broken.codes", "x")):
        (tmp_path / file).write_text(text)
    code, out, message = run(f"info {tmp_path}/{name}")
    assert (code, out, message.count("\n")) == (2, "", 1)
    assert name in message


def test_a_misspelt_path_in_a_folder_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "hub" not in fails("info runs/digist")


@pytest.fixture(scope="module")
def to_check(tmp_path_factory):
    d = tmp_path_factory.mktemp("check")
    must(f"train --preset demo-digits --epochs 1 --bits 16 --out {d}/run")
    must(f"evaluate {d}/run")
    must(f"encode {d}/run digits --part query --out {d}/some.codes")
    must(f"index {d}/some.codes --out {d}/some.index")
    return d


def _damage(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(bytes(data))


def test_whole_things_pass(to_check):
    for name, kinds in (
        ("run", {"settings", "split", "model", "checkpoint", "codes", "scores"}),
        ("run/model", {"model"}),
        ("some.codes", {"codes"}),
        ("some.index", {"index"}),
    ):
        checked = run_json(f"check {to_check}/{name} --json")
        assert checked["ok"]
        assert {part["kind"] for part in checked["parts"]} == kinds
    assert "0 damaged" in must(f"check {to_check}/run")


@pytest.mark.parametrize(
    ("file", "kind", "remedy"),
    [
        ("some.codes", "codes", "scdh encode"),
        ("some.index", "index", "scdh index"),
        ("run/model/model.safetensors", "model", "scdh train --resume"),
        ("run/last.safetensors", "checkpoint", "Delete it"),
        ("run/codes/query.codes", "codes", "scdh evaluate"),
        ("run/config.json", "settings", "Train again"),
    ],
)
def test_damage_is_named_with_what_to_do(to_check, tmp_path, file, kind, remedy):
    shutil.copytree(to_check, tmp_path / "copy")
    _damage(tmp_path / "copy" / file)
    thing = tmp_path / "copy" / ("run" if file.startswith("run") else file)
    code, out, err = run(f"check {thing}")
    assert code == 1
    assert err == ""
    line = next(line for line in out.splitlines() if line.startswith("DAMAGED"))
    assert f"DAMAGED  {kind}: " in line
    assert remedy in line
    assert run(f"check {thing} --json")[0] == 1


def test_a_comparison_and_kept_features(to_check, tmp_path):
    must(f"compare lsh scdh --preset demo-digits --epochs 1 --bits 8 --seeds 0 --out {tmp_path}/compared --no-trials")
    checked = run_json(f"check {tmp_path}/compared --json")
    assert {part["kind"] for part in checked["parts"]} >= {"results of a comparison", "settings", "model"}
    _damage(tmp_path / "compared/compare.json")
    assert run(f"check {tmp_path}/compared")[0] == 1


@pytest.mark.parametrize(
    "command",
    [
        "check p.codes",
        "index p.codes --out x.index",
        "check model",
        "encode model digits",
        "evaluate run",
        "train --config p.toml",
        "search p.index --row 0",
    ],
)
def test_pipes_are_rejected_not_waited_for(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name in ("p.codes", "p.index", "p.toml", "model/model.safetensors", "model/config.json", "run/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    err = fails(f"{command}{' --out x.codes' if command.startswith('encode') else ''}")
    assert len(err.strip().splitlines()) == 1


def test_an_index_whose_names_file_is_gone_is_noticed(to_check, tmp_path):
    for file in to_check.glob("some.index*"):
        shutil.copy(file, tmp_path)
    for names in tmp_path.glob("some.index.items-*"):
        names.unlink()
    code, out, _ = run(f"check {tmp_path}/some.index")
    assert code == 1
    assert "was written with names, but their file some.index.items-" in out
