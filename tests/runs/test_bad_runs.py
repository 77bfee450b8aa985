"""Runs that would have ended wrongly or without an error: stale files, changed data, settings without effect."""

import csv
import json
import shutil
import stat

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from scdh.config import load_config
from scdh.errors import ConfigError, DataError, ModelError, TrainingError
from scdh.methods.scdh import Scdh, ScdhSettings
from scdh.model.hasher import Hasher
from scdh.nets.network import Network
from scdh.runs import features
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.training.collapse import CollapseWatch
from scdh.training.data import TrainingData
from scdh.training.log import RunLog
from scdh.training.optim import build_optimiser
from tests.data.data_files import write_pictures
from tests.training.settled import as_settings, train


def digits(**overrides):
    return load_config(preset="demo-digits", overrides={"train.epochs": 2, **overrides})


@pytest.fixture
def photos(tmp_path):
    """Two classes of 12 small photos, the first of each broken."""
    write_pictures(tmp_path / "photos", [f"{name}/{i:02}.png" for name in ("cat", "dog") for i in range(12)])
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name / "00.png").write_bytes(b"no picture")
    return tmp_path / "photos"


def frozen(photos, **overrides):
    settings = as_settings(
        "data.split=all data.on_bad_image=skip net.backbone=small_conv net.image_size=16 net.freeze=true "
        "net.views=2 train.epochs=2 train.batch_size=8 train.schedule=cosine train.augmentation=shift "
        "train.workers=0"
    ) | {"data.source": str(photos)}
    return load_config(overrides=settings | overrides)


def test_broken_photos_under_a_frozen_trunk_keep_rows_steps_and_report_right(photos, tmp_path):
    cache = tmp_path / "cache"
    with pytest.warns(UserWarning, match="2 broken images were skipped"):
        train(frozen(photos), tmp_path / "one", feature_cache=cache, quiet=True)
    with open(tmp_path / "one" / "steps.csv", newline="") as handle:
        assert len(list(csv.DictReader(handle))) == 2 * (22 // 8)
    with open(tmp_path / "one" / "log.csv", newline="") as handle:  # the schedule counts the steps that are really made
        assert float(list(csv.DictReader(handle))[-1]["lr"]) == pytest.approx(0, abs=1e-12)
    with pytest.warns(UserWarning, match="2 broken images were skipped"):  # cached features report it too
        train(frozen(photos), tmp_path / "two", feature_cache=cache, quiet=True)
    with pytest.raises(DataError, match=r"00\.png cannot be read"):  # and do not hide it from a run that must fail
        train(frozen(photos, **{"data.on_bad_image": "fail"}), None, feature_cache=cache, quiet=True)


def test_a_photo_that_breaks_between_two_views_leaves_all_of_them(photos, tmp_path):
    config, cache = frozen(photos), tmp_path / "cache"
    torch.manual_seed(config.seed)
    hasher = Hasher.build(config, ["cat", "dog"], False, None)
    with pytest.warns(UserWarning, match="left out"):
        features.cached_trunk_features(
            hasher, source_of(config), np.arange(24), folder=cache, workers=0, on_bad_image="skip"
        )
    (photos / "cat" / "05.png").write_bytes(b"broken since")
    with pytest.warns(UserWarning, match="3 broken images were skipped"):
        train(config, None, feature_cache=cache, quiet=True)


def test_no_readable_photo_at_all_is_one_sentence(photos):
    for file in photos.rglob("*.png"):
        file.write_bytes(b"no picture")
    with pytest.raises(DataError, match="None of the 24 training images"), pytest.warns(UserWarning, match="24 images"):
        train(frozen(photos), None, quiet=True)


def test_random_crops_of_a_frozen_trunk_have_the_training_size(photos, monkeypatch):
    sizes, original = [], features.evaluation_batches

    def spy(*args, preprocess, **kwargs):
        sizes.append(preprocess.size)
        return original(*args, preprocess=preprocess, **kwargs)

    monkeypatch.setattr(features, "evaluation_batches", spy)
    with pytest.warns(UserWarning, match="2 broken images"):
        train(frozen(photos, **{"net.evaluation_size": 24, "net.views": 3}), None, quiet=True)
    assert sizes == [24, 16, 16]


def test_without_a_folder_the_best_epoch_is_returned_too(monkeypatch):
    seen = []

    def validate(self, net):
        seen.append(net.head.hash_layer.weight.detach().clone())
        return [0.3, 0.9, 0.5][len(seen) - 1]

    monkeypatch.setattr(TrainingData, "validate", validate)
    hasher = Hasher.train(digits(**{"train.epochs": 3, "data.validation_per_class": 5}), quiet=True)
    assert hasher.info["best_epoch"] == 2
    assert torch.equal(hasher.network.head.hash_layer.weight, seen[1])
    assert not torch.equal(seen[1], seen[2])


def test_a_best_model_left_by_a_killed_run_is_not_taken_for_this_ones(tmp_path):
    Hasher.train(digits(**{"train.epochs": 1, "method.bits": 16, "data.validation_per_class": 5}), tmp_path, quiet=True)
    shutil.move(tmp_path / "model", tmp_path / "best")
    (tmp_path / "last.safetensors").unlink()
    assert Hasher.train(digits(**{"train.epochs": 1}), tmp_path, quiet=True).bits == 32
    assert Hasher.load(tmp_path).bits == 32


def test_resume_rejects_data_that_changed(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    np.savez(tmp_path / "data.npz", X=X, y=y)
    config = digits(**{"data.source": str(tmp_path / "data.npz"), "data.query_per_class": 5})
    Hasher.train(config, tmp_path / "run", quiet=True)
    np.savez(tmp_path / "data.npz", X=X[:-3], y=y[:-3])
    with pytest.raises(TrainingError, match="data have changed since the run"):
        Hasher.train(config, tmp_path / "run", resume=True, quiet=True)


def test_a_line_cut_short_by_a_kill_is_no_row_of_an_earlier_epoch(tmp_path):
    (tmp_path / "steps.csv").write_text("epoch,step,loss\n1,1,0.5\n12,1,0.4\n1")
    RunLog(RunFolder(tmp_path), epochs_done=11, quiet=True).close()
    assert (tmp_path / "steps.csv").read_text().split() == ["epoch,step,loss", "1,1,0.5"]


def test_saving_never_empties_a_folder_of_other_things(tmp_path):
    hasher = Hasher.build(digits(), ["a", "b"], False, 4)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    with pytest.raises(ModelError, match="holds other files and no model"):
        hasher.save(tmp_path / "work")
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years"
    hasher.save(tmp_path / "model")
    hasher.save(tmp_path / "model")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "model").iterdir()}
    assert len(set(modes.values())) == 1, "the weights are as readable as the description"


def test_a_model_that_does_not_fit_is_one_line(tmp_path):
    hasher = Hasher.build(digits(), ["a", "b"], False, 4)
    hasher.save(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    description = json.loads((tmp_path / "model" / "config.json").read_text()) | {"label_names": ["a", "b", "c"]}
    save_file(load_file(weights), weights, metadata={"description": json.dumps(description), "checksum": "x"})
    with pytest.raises(ModelError, match=r"another version: tensor 'head.* is \[2") as caught:
        Hasher.load(tmp_path / "model")
    assert "\n" not in str(caught.value)
    save_file(load_file(weights), weights, metadata={"description": "[]", "checksum": "x"})
    with pytest.raises(ModelError, match="does not hold a model of scdh"):
        Hasher.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"net.freeze": True, "net.dropout": None}, "net.freeze cannot be used with embeddings"),
        ({"net.drop_path": 0.1}, "net.drop_path cannot be used with embeddings"),
        ({"net.image_size": 32}, "net.image_size cannot be used with embeddings"),
        ({"net.crop_fraction": 1.0}, "net.crop_fraction cannot be used with embeddings"),
        ({"data.split": "all", "data.train_per_class": 5}, "data.train_per_class is for a drawn split"),
        ({"data.split": "auto", "data.query": "val"}, "does not come divided"),
        ({"train.augmentation": "cropp"}, r"Unknown augmentation 'cropp'; did you mean 'crop'\?$"),
        ({"method.name": "lsh", "method.alpha": 1.0}, "Unknown lsh setting 'alpha'"),
    ],
)
def test_settings_without_effect_are_rejected(overrides, sentence):
    with pytest.raises((ConfigError, DataError), match=sentence):
        Hasher.train(digits(**overrides), quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"net.backbone": "resnet18", "net.dropout": 0.2}, "cannot be built with net.dropout"),
        ({"net.backbone": "timm:vgg11", "net.drop_path": 0.2}, "cannot be built with net.drop_path"),
        ({"net.backbone": "small_conv", "net.drop_path": 0.2}, "net.drop_path cannot be used with 'small_conv'"),
        ({"net.backbone": "alexnet", "net.image_size": 32}, "cannot take images of 32×32"),
        (
            {"net.backbone": "vit_tiny_patch16_224", "net.image_size": 64, "net.evaluation_size": 96},
            "cannot take images of 96×96",
        ),
    ],
)
def test_a_backbone_that_cannot_be_had_so_is_one_sentence(overrides, sentence):
    config = load_config(overrides={"net.pretrained": False, **overrides})
    with pytest.raises(ConfigError, match=sentence):
        Hasher.build(config, ["a", "b"], False, None)


def test_momentum_reaches_either_optimiser():
    hasher = Hasher.build(digits(), ["a", "b"], False, 4)
    for name, read in (("sgd", lambda g: g["momentum"]), ("adamw", lambda g: g["betas"][0])):
        settings = digits(**{"train.optimiser": name, "train.momentum": 0.7}).train
        assert {read(group) for group in build_optimiser(hasher.network, hasher.method, settings).param_groups} == {0.7}


def test_equal_codes_of_an_untrained_network_are_no_collapse(recwarn):
    net, method = Network(torch.nn.Identity(), 4, 6), Scdh(ScdhSettings(), 6, 3, False)
    method.build(net)
    watch, equal, labels = CollapseWatch(net, method), torch.ones(16, 6), torch.arange(16) % 3
    assert [watch.check(net, equal, labels) is None for _ in range(3)] == [True, True, False]
    watch = CollapseWatch(net, method, steps_per_epoch=2)  # few rows: these are the first 50 steps
    assert all(watch.check(net, equal, labels) is None for _ in range(24))


def test_a_fitted_run_has_a_model_and_is_not_overwritten(tmp_path):
    config = load_config(overrides={"data.source": "digits", "method.name": "lsh", "net.backbone": "features"})
    hasher = Hasher.train(config, tmp_path / "run", quiet=True)
    run = RunFolder(tmp_path / "run")
    assert run.is_finished
    assert run.load_model().fingerprint() == hasher.fingerprint()
    assert run.config() == config
    assert not run.checkpoint.exists()
    with pytest.raises(TrainingError, match="already holds a run; resume it"):
        Hasher.train(config, tmp_path / "run", quiet=True)
    assert Hasher.train(config, tmp_path / "run", resume=True, quiet=True).fingerprint() == hasher.fingerprint()
