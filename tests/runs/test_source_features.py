"""Features are computed once, kept in a run or shared by all runs of a user; later commands read them, bits stay."""

import json
import os
import shutil
import tempfile

import numpy as np
import pytest
import torch

from scdh.codes import Codes
from scdh.config import load_config
from scdh.model.hasher import Hasher
from scdh.nets.export import cache as exports
from scdh.runs import features, shared_features, source_features
from scdh.runs.caches import machine_caches
from scdh.runs.features import cached_trunk_features
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.scoring import score_run
from tests.cli.commands import must, run_json
from tests.data.data_files import write_pictures

NET = ["--epochs", "1", "--set", "net.backbone=small_conv", "--set", "net.image_size=16", "--set", "train.workers=0"]
NET += ["--set", "data.query_per_class=2"]
OPTIONS = [*NET, "--bits", "8", "--set", "train.augmentation=none"]
FROZEN = [*NET, "--no-trials", "--set", "net.views=2", "--set", "net.freeze=true"]


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
    assert result.floats.scores.definition["database"] == result.scores.definition["database"]
    total = result.scores.definition["database"] + result.scores.definition["queries"]
    assert total == 15


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setenv(shared_features.FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_another_length_or_method_computes_no_features_again(photos, shared, tmp_path, computed):
    must(["train", "--data", f"{photos}/photos", "--bits", "32", *FROZEN, "--out", f"{tmp_path}/a"])
    must(["evaluate", f"{tmp_path}/a"])
    assert sum(computed) > 16
    computed.clear()
    for number, more in enumerate((["--bits", "16"], ["--method", "itq", "--bits", "8"])):
        must(["train", "--data", f"{photos}/photos", *more, *FROZEN, "--out", f"{tmp_path}/{number}"])
        must(["evaluate", f"{tmp_path}/{number}"])
    assert computed == []
    assert not (tmp_path / "a/features").exists()
    assert RunFolder(tmp_path / "a").feature_folder() == shared


def test_an_empty_variable_keeps_features_in_the_folder_of_the_run(photos, tmp_path, monkeypatch):
    monkeypatch.setenv(shared_features.FOLDER_VARIABLE, "")
    must(["train", "--data", f"{photos}/photos", *FROZEN, "--out", f"{tmp_path}/run"])
    assert list((tmp_path / "run/features").iterdir())
    assert "features" not in run_json("cache --json")


def test_features_do_not_depend_on_the_images_they_are_computed_with(photos):
    config = load_config(
        overrides={
            "data.source": f"{photos}/photos",
            "data.split": "all",
            "net.backbone": "resnet18",
            "net.image_size": 32,
        }
        | {"data.split": "all", "net.pretrained": False, "net.freeze": True, "train.workers": 0}
    )
    torch.manual_seed(0)
    hasher, source = Hasher.build(config, ["cat", "dog"], False, None), source_of(config)

    def computed(rows):
        return cached_trunk_features(hasher, source, np.array(rows), workers=0, batch_size=64)[1]

    every = computed(range(16))
    assert np.array_equal(computed([3]), every[[3]])
    assert np.array_equal(computed([2, 5, 7, 11, 13]), every[[2, 5, 7, 11, 13]])


def test_the_features_used_longest_ago_are_removed_beyond_the_limit(photos, shared, monkeypatch):
    config = load_config(
        overrides={
            "data.source": f"{photos}/photos",
            "data.split": "all",
            "net.backbone": "small_conv",
            "net.image_size": 16,
        }
        | {"data.split": "all", "net.freeze": True}
    )
    hasher, source, rows = Hasher.build(config, ["cat", "dog"], False, None), source_of(config), np.arange(16)

    (shared / "letters").mkdir(parents=True)
    (shared / "letters" / "one.txt").write_bytes(bytes(10_000))

    def compute(view):
        cached_trunk_features(
            hasher, source, rows, folder=shared, workers=0, augmentation="shift", random_key=(0, view)
        )
        return {path.name for path in shared.iterdir()} - {"letters"}

    first, both = compute(1), compute(2)
    second = both - first
    for age, name in enumerate([*first, *second]):  # the first one was used after the second
        os.utime(shared / name, (1000 - age, 1000 - age))
    size = sum(file.stat().st_size for file in shared.rglob("*.safetensors"))
    monkeypatch.setattr(shared_features, "MOST_BYTES", int(1.1 * size))
    left = compute(3)
    assert first < left
    assert len(left) == 2
    assert not second & left
    assert (shared / "letters" / "one.txt").exists()


def test_the_default_caches_of_tests_are_not_those_of_the_user(monkeypatch):
    monkeypatch.delenv(shared_features.FOLDER_VARIABLE)
    assert {cache.name for cache in machine_caches()} == {"features", "exports", "loops"}
    for cache in machine_caches():
        assert cache.folder.is_relative_to(tempfile.gettempdir())


def test_the_command_shows_and_clears_what_is_kept(photos, shared, tmp_path):
    must(["train", "--data", f"{photos}/photos", *FROZEN, "--out", f"{tmp_path}/run"])
    kept = run_json("cache --json")["features"]
    assert kept["folder"] == str(shared)
    assert kept["entries"] == 2  # the photos, and one random view of them
    assert kept["bytes"] > 0
    assert str(shared) in must("cache").replace("\n", "")
    assert run_json("cache --clear features --json")["features"]["bytes"] == 0
    assert list(shared.iterdir()) == []
    must(["evaluate", f"{tmp_path}/run"])
    assert run_json("cache --json")["features"]["entries"] == 1


def test_clearing_a_cache_leaves_what_scdh_did_not_write(shared, monkeypatch):
    monkeypatch.setenv(exports.FOLDER_VARIABLE, str(shared))
    of_user = [shared / "letter.txt", shared / "photos" / "a.jpg", shared / ("a" * 24) / "b.jpg"]
    own = [shared / ("b" * 24) / "c.safetensors", shared / f"{'c' * 32}.scdh-export"]
    for file in of_user + own:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    (shared / ("d" * 24)).symlink_to(own[0].parent)
    for name in ("features", "exports"):
        must(f"cache --clear {name}")
    assert [file.exists() for file in of_user] == [True] * 3
    assert [file.exists() for file in own] == [False] * 2
