"""A method that takes several labels per row learns from all of them: one of two labels gives a lower MAP."""

from pathlib import Path

import numpy as np
import pytest

from scdh import evaluate
from scdh.config import load_config
from scdh.methods.registry import method_class
from scdh.model.hasher import Hasher
from scdh.runs.protocol import protocol_of, source_of
from tests.methods import harness
from tests.methods.harness import METHODS

CLASSES, ROWS, WIDTH, BITS = 10, 400, 16, 16
LEARNS_FROM_SEVERAL = [
    name for name in METHODS if method_class(name).needs_labels and "multi" in method_class(name).about.labels
]
LIMIT = 0.72  # one label of the two gives 0.69, LSH 0.52, codes by chance 0.38
# DPN's hinges of two targets cancel where these differ; DRLIH learns slowly; SDH reads the noise as it is; what SSDH's
# hinges of single classes reach depends on the start. All four are above LSH.
LIMITS = {"dpn": 0.6, "drlih": 0.6, "sdh": 0.6, "ssdh": 0.6}


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Sums of the vectors of two labels each, next to as many features of strong noise; and the labels."""
    rng = np.random.default_rng(0)
    labels = np.zeros((ROWS, CLASSES), np.uint8)
    np.put_along_axis(labels, rng.random(labels.shape).argsort(1)[:, :2], 1, 1)
    sums = 2 * labels @ rng.normal(size=(CLASSES, WIDTH)) + rng.normal(size=(ROWS, WIDTH))
    return np.hstack([sums, 4 * rng.normal(size=(ROWS, WIDTH))]).astype(np.float32), labels


def train(name: str, folder: Path, vectors: np.ndarray, labels: np.ndarray) -> Hasher:
    np.savez(folder / "data.npz", X=vectors, y=labels)
    given = {"data.source": str(folder / "data.npz"), "data.query_per_class": 10, "data.train_per_class": None}
    if method_class(name).learns_by_gradient:
        given |= {"train.epochs": 25, "train.batch_size": 32, "train.lr_head": 0.005, "train.lr_trunk": 0.005}
    config = load_config("demo-digits", overrides={"method.name": name, "method.bits": BITS, **given})
    return Hasher.train(config, quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNS_FROM_SEVERAL)
def test_it_learns_from_several_labels(name: str, tmp_path: Path) -> None:
    hasher = train(name, tmp_path, *rows())
    assert hasher.multi_label
    score = harness.query_map(hasher)
    assert score > LIMITS.get(name, LIMIT), f"{name}: MAP {score:.3f}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scdh", "dhn", "lsh"])
def test_one_of_two_labels_is_below_the_limit(name: str, tmp_path: Path) -> None:
    vectors, labels = rows()
    kept = (labels * np.random.default_rng(1).random(labels.shape)).argmax(1)
    hasher = train(name, tmp_path, vectors, np.eye(CLASSES, dtype=np.uint8)[kept])
    protocol = protocol_of(hasher.config, source_of(hasher.config))
    query, database = (hasher.encode(vectors[part]) for part in (protocol.query, protocol.database))
    score = evaluate(query, labels[protocol.query], database, labels[protocol.database]).map
    assert score < LIMIT if name != "lsh" else score < min(LIMITS.values()) - 0.05
