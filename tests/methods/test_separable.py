"""Methods that are easily trained wrong learn classes that lie apart: from chance to a MAP near 1."""

import numpy as np
import pytest

from scdh.config import load_config
from scdh.hasher import Hasher
from tests.methods import harness

CLASSES, ROWS, WIDTH = 4, 60, 12
SETTINGS = {
    "dhn": {},
    "dtsh": {"method.margin": 5.0},
    "boh": {},
    "drlih": {"train.lr_head": 0.0005, "train.epochs": 60},
    "dsdh": {"method.batch_epochs": 5},
    "dish": {},
    "dqn": {"method.bottleneck": 32},
    "ftde": {"method.triplets": 50},
}


@pytest.fixture(scope="module")
def blobs(tmp_path_factory):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), ROWS)
    vectors = 3 * rng.normal(size=(CLASSES, WIDTH))[labels] + rng.normal(size=(len(labels), WIDTH))
    path = tmp_path_factory.mktemp("blobs") / "blobs.npz"
    np.savez(path, X=vectors.astype(np.float32), y=labels)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_it_separates_classes_that_lie_apart(name, blobs):
    data = {"data.source": str(blobs), "data.query_per_class": 15, "method.bits": 16, "train.epochs": 25}
    given = {"method.name": name, "train.batch_size": 32, "train.lr_head": 0.005, "train.lr_trunk": 0.005, **data}
    config = load_config("demo-digits", overrides={**given, **SETTINGS[name]})
    score = harness.query_map(Hasher.train(config, quiet=True))
    assert score > 0.9, f"{name}: MAP {score:.3f}; by chance it would be 0.25"
