"""Kept features are read by the commands that come after training; bits stay the same."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.runs import features, source_features
from scdh.runs.folder import RunFolder
from scdh.runs.scoring import score_run
from tests.cli.commands import must, run_json
from tests.data.data_files import write_pictures

SETTINGS = ("net.backbone=small_conv", "net.image_size=16", "train.workers=0", "train.augmentation=none")
OPTIONS = [
    *("--bits", "8", "--epochs", "1", "--set", "data.query_per_class=2"),
    *(part for setting in SETTINGS for part in ("--set", setting)),
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ph otos ü")
    write_pictures(folder / "photos", [f"{kind}/{i:02}.png" for kind in ("cat", "dog") for i in range(8)])
    must(["train", "--data", f"{folder}/photos", *OPTIONS, "--set", "net.freeze=true", "--out", f"{folder}/run"])
    return folder


@pytest.fixture
def computed(monkeypatch):
    """The number of rows of each pass of the trunk."""
    seen, original = [], features.evaluation_batches

    def spy(source, rows, **settings):
        seen.append(len(rows))
        return original(source, rows, **settings)

    monkeypatch.setattr(features, "evaluation_batches", spy)
    return seen


@pytest.fixture
def fresh(photos, tmp_path):
    shutil.copytree(photos / "run", tmp_path / "run")
    return tmp_path / "run"


def test_evaluating_computes_only_the_queries_and_keeps_them(fresh, computed, monkeypatch):
    monkeypatch.setattr(source_features, "CHUNK", 5)
    result = score_run(RunFolder(fresh), floats=True)
    assert sum(computed) == len(result.protocol.query) == 4
    shutil.rmtree(fresh / "codes")
    assert score_run(RunFolder(fresh), floats=True).scores.map == result.scores.map
    assert sum(computed) == 4
    kept = {part: Codes.load(RunFolder(fresh).codes(part)) for part in ("query", "database")}
    hasher = RunFolder(fresh).load_model()
    source = source_features.SourceFeatures(source_of_run(fresh), None)
    for codes in kept.values():  # without any kept feature
        plain = hasher.encode_outputs(source.hash_outputs(hasher, source.source, codes.ids, workers=0))
        assert np.array_equal(plain.unpack(), codes.unpack())


def source_of_run(folder):
    from scdh.runs.protocol import source_of

    return source_of(RunFolder(folder).config())


def test_encoding_reads_what_is_kept_and_keeps_nothing(fresh, photos, computed):
    before = sorted(fresh.rglob("*.safetensors"))
    must(["encode", str(fresh), f"{photos}/photos", "--workers", "0", "--out", f"{fresh}/all.codes"])
    assert computed == [4]
    assert sorted(fresh.rglob("*.safetensors")) == before
    shutil.rmtree(fresh / "features")
    must(["encode", str(fresh), f"{photos}/photos", "--workers", "0", "--out", f"{fresh}/again.codes"])
    assert computed == [4]  # where nothing is kept the network runs as a whole
    assert np.array_equal(*(Codes.load(fresh / f"{name}.codes").unpack() for name in ("all", "again")))


def test_another_folder_of_features_is_remembered_also_when_both_are_moved(photos, tmp_path, computed):
    options = [*OPTIONS, "--set", "net.freeze=true", "--feature-cache", f"{tmp_path}/a/kept"]
    must(["train", "--data", f"{photos}/photos", *options, "--out", f"{tmp_path}/a/run"])
    assert not (tmp_path / "a/run/features").exists()
    (tmp_path / "a").rename(tmp_path / "b")
    computed.clear()
    run_json(["evaluate", f"{tmp_path}/b/run", "--json"])
    assert sum(computed) == 4
    assert RunFolder(tmp_path / "b/run").feature_folder() == tmp_path / "b/kept"
    shutil.rmtree(tmp_path / "b/kept")
    assert RunFolder(tmp_path / "b/run").feature_folder() == tmp_path / "b/run/features"
    (tmp_path / "b/run/features.json").write_text("[]")
    assert RunFolder(tmp_path / "b/run").feature_folder() == tmp_path / "b/run/features"


@pytest.mark.slow
def test_a_tuned_network_runs_as_a_whole_and_has_no_floats(photos, tmp_path, computed):
    must(["train", "--data", f"{photos}/photos", *OPTIONS, "--set", "net.freeze=false", "--out", f"{tmp_path}/run"])
    text = must(["evaluate", f"{tmp_path}/run"])
    assert computed == []
    assert "not scored: the network was tuned for these codes" in text
    assert "no_floats" in json.loads((tmp_path / "run/scores.json").read_text("utf-8"))


def test_bad_images_are_left_out_of_codes_and_floats_alike(fresh, photos, tmp_path):
    shutil.copytree(photos / "photos", tmp_path / "photos")
    config = json.loads((fresh / "config.json").read_text("utf-8"))
    config["config"]["data"] |= {"source": str(tmp_path / "photos"), "on_bad_image": "skip"}
    del config["checksum"]  # changed on purpose
    del config["data_paths"]  # else the photos are found where they were in training
    (fresh / "config.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "photos/cat/03.png").write_bytes(b"broken")
    with pytest.warns(UserWarning, match="left out"):
        result = score_run(RunFolder(fresh), floats=True)
    assert result.floats is not None
    assert result.floats.scores.definition["database"] == result.scores.definition["database"]
    total = result.scores.definition["database"] + result.scores.definition["queries"]
    assert total == 15


@pytest.mark.slow
def test_encode_loads_no_scores():
    script = "import sys, scdh.runs.source_features; assert 'scdh.evaluation' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
