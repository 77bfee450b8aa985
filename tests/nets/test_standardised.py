"""Embeddings scaled by mean and deviation of the training rows."""

import numpy as np
import pytest
import torch

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.model.hasher import Hasher
from scdh.nets.small import LEAST_SHARE, FeatureTrunk
from tests.training.settled import train


def test_inputs_are_scaled_as_measured():
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(500, 4)) * [1, 10, 100, 1e-9] + [5, -3, 0, 2]).astype(np.float32)
    trunk = FeatureTrunk(4, [], standardise=True)
    trunk.measure(features)
    out = trunk(torch.from_numpy(features)).numpy()
    deviation = features.std(axis=0)
    floor = LEAST_SHARE * np.sqrt(np.mean(deviation**2))
    np.testing.assert_allclose(out, (features - features.mean(0)) / np.maximum(deviation, floor), atol=1e-4)
    assert np.abs(out[:, 3]).max() < 1e-3  # noise is not enlarged


def test_constant_embeddings_stay_finite():
    trunk = FeatureTrunk(3, [2], standardise=True)
    trunk.measure(np.full((10, 3), 7, np.float32))
    assert torch.isfinite(trunk(torch.full((2, 3), 7.0))).all()


def test_without_it_there_is_nothing_to_keep():
    trunk = FeatureTrunk(3, [])
    trunk.measure(np.ones((10, 3), np.float32))
    assert not trunk.state_dict()
    assert torch.equal(trunk(torch.ones(2, 3)), torch.ones(2, 3))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_embeddings_does_not_matter(tmp_path, scale):
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 4
    features = (rng.normal(size=(4, 8))[labels] + 0.3 * rng.normal(size=(120, 8))).astype(np.float32)
    config = load_config(
        overrides={
            "net.backbone": "features",
            "net.standardise": True,
            "net.hidden": [16],
            "data.split": "all",
            "method.bits": 16,
            "train.epochs": 3,
            "train.batch_size": 32,
            "train.augmentation": "none",
        }
    )
    plain = train(config, None, source=ArraySource(features, labels, name="x"), quiet=True)
    train(config, tmp_path, source=ArraySource(features * scale, labels, name="x"), quiet=True)
    scaled = Hasher.load(tmp_path)  # mean and scale are part of the model
    differing = plain.encode(features).unpack() != scaled.encode(features * scale).unpack()
    assert differing.mean() < 0.01
