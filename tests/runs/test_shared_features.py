"""Features that all runs of a user share: computed once, to the last digit the same, limited in size, and clearable."""

import os

import numpy as np
import pytest
import torch

from scdh.config import load_config
from scdh.model.hasher import Hasher
from scdh.runs import features, shared_features
from scdh.runs.features import cached_trunk_features
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from tests.cli.commands import must, run_json
from tests.data.data_files import write_pictures

SETTINGS = ("net.backbone=small_conv", "net.image_size=16", "train.workers=0", "net.views=2", "net.freeze=true")
OPTIONS = [
    *("--epochs", "1", "--no-trials", "--set", "data.query_per_class=2"),
    *(part for setting in SETTINGS for part in ("--set", setting)),
]


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setenv(shared_features.FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def photos(tmp_path):
    write_pictures(tmp_path / "photos", [f"{kind}/{i:02}.png" for kind in ("cat", "dog") for i in range(8)])
    return tmp_path / "photos"


@pytest.fixture
def computed(monkeypatch):
    """The number of rows of each pass of the trunk."""
    seen, original = [], features.evaluation_batches

    def spy(source, rows, **settings):
        seen.append(len(rows))
        return original(source, rows, **settings)

    monkeypatch.setattr(features, "evaluation_batches", spy)
    return seen


def test_another_length_or_method_computes_no_features_again(photos, shared, tmp_path, computed):
    must(["train", "--data", str(photos), "--bits", "32", *OPTIONS, "--out", f"{tmp_path}/a"])
    must(["evaluate", f"{tmp_path}/a"])
    assert sum(computed) > 16
    computed.clear()
    for number, more in enumerate((["--bits", "16"], ["--method", "itq", "--bits", "8"])):
        must(["train", "--data", str(photos), *more, *OPTIONS, "--out", f"{tmp_path}/{number}"])
        must(["evaluate", f"{tmp_path}/{number}"])
    assert computed == []
    assert not (tmp_path / "a/features").exists()
    assert RunFolder(tmp_path / "a").feature_folder() == shared


def test_an_empty_variable_keeps_features_in_the_folder_of_the_run(photos, tmp_path, monkeypatch):
    monkeypatch.setenv(shared_features.FOLDER_VARIABLE, "")
    must(["train", "--data", str(photos), *OPTIONS, "--out", f"{tmp_path}/run"])
    assert list((tmp_path / "run/features").iterdir())
    assert "features" not in run_json("cache --json")


def test_features_do_not_depend_on_the_images_they_are_computed_with(photos):
    config = load_config(
        overrides={"data.source": str(photos), "data.split": "all", "net.backbone": "resnet18", "net.image_size": 32}
        | {"net.pretrained": False, "net.freeze": True, "train.workers": 0}
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
        overrides={"data.source": str(photos), "data.split": "all", "net.backbone": "small_conv", "net.image_size": 16}
        | {"net.freeze": True}
    )
    hasher, source, rows = Hasher.build(config, ["cat", "dog"], False, None), source_of(config), np.arange(16)

    def compute(view):
        cached_trunk_features(
            hasher, source, rows, folder=shared, workers=0, augmentation="shift", random_key=(0, view)
        )
        return {path.name for path in shared.iterdir()}

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


def test_the_command_shows_and_clears_what_is_kept(photos, shared, tmp_path):
    must(["train", "--data", str(photos), *OPTIONS, "--out", f"{tmp_path}/run"])
    kept = run_json("cache --json")["features"]
    assert kept["folder"] == str(shared)
    assert kept["entries"] == 2  # the photos, and one random view of them
    assert kept["bytes"] > 0
    assert str(shared) in must("cache").replace("\n", "")
    assert run_json("cache --clear features --json")["features"]["bytes"] == 0
    assert list(shared.iterdir()) == []
    must(["evaluate", f"{tmp_path}/run"])
    assert run_json("cache --json")["features"]["entries"] == 1
