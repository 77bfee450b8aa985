"""A run that stops when validation no longer gains."""

import csv

import pytest

from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.training import data as data_module
from tests.methods.harness import digits
from tests.training.settled import train


@pytest.fixture
def scores(monkeypatch):
    """Validation scores that training will see, one an epoch."""
    values = [0.3, 0.5, 0.4, 0.45, 0.2, 0.9]
    left = iter(values)
    monkeypatch.setattr(data_module.TrainingData, "validate", lambda data, net: next(left))
    return values


def epochs_of(run: RunFolder) -> list[str]:
    with open(run.log, newline="") as handle:
        return [row["epoch"] for row in csv.DictReader(handle)]


def test_training_stops_after_so_many_scores_without_a_better_one(tmp_path, scores):
    config = digits("scdh", 6, **{"data.validation_per_class": 5, "train.patience": 2})
    model = train(config, tmp_path, quiet=True)
    assert epochs_of(RunFolder(tmp_path)) == ["1", "2", "3", "4"]
    assert (model.info["best_epoch"], model.info["validation_map"]) == (2, 0.5)
    again = train(config, tmp_path, resume=True, quiet=True)
    assert epochs_of(RunFolder(tmp_path)) == ["1", "2", "3", "4"]
    assert again.fingerprint() == model.fingerprint() == Hasher.load(tmp_path).fingerprint()


def test_patience_counts_scores_not_epochs(tmp_path, scores):
    settings = {"data.validation_per_class": 5, "train.patience": 1, "train.validate_every": 2}
    train(digits("scdh", 8, **settings), tmp_path, quiet=True)
    assert epochs_of(RunFolder(tmp_path)) == ["1", "2", "3", "4", "5", "6"]  # 0.3, 0.5, then 0.4


def test_without_patience_or_validation_training_goes_to_the_end(tmp_path, scores):
    train(digits("scdh", 6, **{"data.validation_per_class": 5}), tmp_path / "a", quiet=True)
    assert len(epochs_of(RunFolder(tmp_path / "a"))) == 6
    train(digits("scdh", 3, **{"data.validation_per_class": 0, "train.patience": 1}), tmp_path / "b", quiet=True)
    assert len(epochs_of(RunFolder(tmp_path / "b"))) == 3
