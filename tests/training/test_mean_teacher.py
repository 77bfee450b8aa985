"""Runs of MT-SCDH: labels that must not count, teacher and student on disk, resume, two processes, images."""

import json

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.open import open_source
from scdh.errors import ConfigError, ModelError
from scdh.methods.mt_scdh import MtScdh
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of
from tests.cli.commands import run_json
from tests.training.settled import train


def digits(**overrides):
    few = {"train.epochs": 2, "data.labelled_per_class": 5, "method.name": "mt_scdh"}
    return load_config(preset="demo-digits", overrides={**few, **overrides})


@pytest.mark.slow
def test_poisoned_labels_of_unlabelled_rows_change_nothing():
    source, config = open_source("digits"), digits()
    protocol = protocol_of(config, source)
    poisoned = source.labels.copy()
    poisoned[protocol.unlabelled] = np.random.default_rng(0).permutation(poisoned[protocol.unlabelled])
    assert (poisoned != source.labels).mean() > 0.5
    fingerprints = set()
    removed = source.labels.copy()
    removed[protocol.unlabelled] = -1
    for labels in (source.labels, poisoned, removed):
        altered = ArraySource(source.features, labels, source.label_names, name="digits")
        fingerprints.add(train(config, None, quiet=True, source=altered, protocol=protocol).fingerprint())
    assert len(fingerprints) == 1


@pytest.mark.slow
def test_teacher_and_student_are_both_kept_and_scored(tmp_path):
    config = digits(**{"data.validation_per_class": 5})
    teacher = Hasher.train(config, tmp_path, quiet=True)
    run = RunFolder(tmp_path)
    student = run.load_model("student")
    assert run.load_model().fingerprint() == run.load_model("teacher").fingerprint() == teacher.fingerprint()
    assert student.fingerprint() != teacher.fingerprint()
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert "validation_map," in header
    assert "validation_map_student" in header
    both = run_json(f"evaluate {tmp_path} --json")
    alone = run_json(f"evaluate {tmp_path} --from student --json")
    assert (both["network"], both["student"]["network"]) == ("teacher", "student")
    assert alone["map"] == both["student"]["map"] != both["map"]
    assert json.loads((tmp_path / "scores.json").read_text())["map"] == both["map"]
    assert json.loads((tmp_path / "scores_student.json").read_text())["map"] == alone["map"]
    plain = tmp_path / "plain"
    Hasher.train(load_config(preset="demo-digits", overrides={"train.epochs": 1}), plain, quiet=True)
    with pytest.raises(ModelError, match="holds one network only"):
        RunFolder(plain).load_model("student")


def test_a_second_average_is_rejected():
    with pytest.raises(ConfigError, match="averages the weights itself"):
        Hasher.train(digits(**{"train.ema": 0.9}), quiet=True)


@pytest.mark.slow
def test_resume_gives_the_same_teacher_and_student(tmp_path):
    whole = digits(**{"train.epochs": 3})
    Hasher.train(whole, tmp_path / "whole", quiet=True)
    # A run that stops in the third epoch has a checkpoint of two; the third is then done again.
    original, calls = MtScdh.end_epoch, []

    def stops(self, net, data, moment):
        calls.append(moment.epoch)
        if moment.epoch == 2 and calls.count(2) == 1:
            raise KeyboardInterrupt
        return original(self, net, data, moment)

    MtScdh.end_epoch = stops
    try:
        with pytest.raises(KeyboardInterrupt):
            Hasher.train(whole, tmp_path / "parts", quiet=True)
        Hasher.train(whole, tmp_path / "parts", resume=True, quiet=True)
    finally:
        MtScdh.end_epoch = original
    for name in ("model", "student"):
        one, two = (Hasher.load(tmp_path / run / name).fingerprint() for run in ("whole", "parts"))
        assert one == two, name


@pytest.mark.slow
def test_many_labels_and_images_train_too(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for part in ("a", "b", "unlabelled"):
        (tmp_path / "photos" / part).mkdir(parents=True)
        for i in range(8):
            shade = {"a": 40, "b": 200}.get(part, 40 + 160 * (i % 2))
            pixels = rng.integers(shade - 30, shade + 30, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / part / f"{i}.png")
    small = {"net.backbone": "small_conv", "net.pretrained": False, "net.image_size": 16, "train.augmentation": "shift"}
    short = {"train.epochs": 2, "train.batch_size": 8, "data.query_per_class": 2, "method.bits": 8}
    photos = {"data.source": str(tmp_path / "photos"), "method.name": "mt_scdh"}
    hasher = train(load_config(overrides={**small, **short, **photos}), tmp_path / "run", quiet=True)
    assert hasher.label_names == ["a", "b"]
    assert "consistency_centres" in (tmp_path / "run" / "steps.csv").read_text()
    labels = (rng.random((60, 3)) < 0.5).astype(np.uint8)
    labels[40:] = 0
    np.savez(tmp_path / "v.npz", X=rng.normal(size=(60, 6)).astype(np.float32), y=labels)
    many = {"data.source": str(tmp_path / "v.npz"), "net.backbone": "features", "train.augmentation": "none"}
    more = {"method.name": "mt_scdh", "data.split": "all"}
    assert train(load_config(overrides={**short, **many, **more}), quiet=True).multi_label
