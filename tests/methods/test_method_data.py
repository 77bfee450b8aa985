"""What a method is called with: the time of each call, and the training data."""

from collections import Counter

import numpy as np
import pytest

from scdh.config import load_config
from scdh.errors import DataError
from scdh.methods.base import MethodData
from scdh.model.hasher import Hasher
from scdh.runs.protocol import protocol_of, source_of
from tests.data.data_files import write_pictures
from tests.methods.toys import Toy, digits, use_as_toy


class Recorder(Toy):
    """Keeps what it is called with."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.moments, self.features, self.outputs = [], [], []

    def prepare(self, net, data):
        self.data = data
        self.first_features = data.features(net)

    def step(self, net, batch, moment):
        self.moments.append(("step", moment))
        return super().step(net, batch, moment)

    def after_step(self, net, moment):
        self.moments.append(("after_step", moment))

    def end_epoch(self, net, data, moment):
        self.moments.append(("end_epoch", moment))
        assert data is self.data
        assert net.training
        self.features.append(data.features(net))
        self.outputs.append(data.u(net))
        assert net.training
        return {"norm": float(np.abs(self.outputs[-1]).mean())}


def test_moments_and_data_of_a_run(monkeypatch):
    use_as_toy(monkeypatch, Recorder)
    config = digits(**{"train.epochs": 2})
    hasher = Hasher.train(config, quiet=True)
    method, source = hasher.method, source_of(config)
    protocol = protocol_of(config, source)
    assert Counter(name for name, _ in method.moments) == {"step": 6, "after_step": 6, "end_epoch": 2}
    expected = [(name, epoch, step) for epoch in range(2) for step in range(3) for name in ("step", "after_step")]
    expected[6:6], expected[14:] = [("end_epoch", 0, 3)], [("end_epoch", 1, 3)]
    assert [(name, moment.epoch, moment.step) for name, moment in method.moments] == expected
    assert {(m.steps_per_epoch, m.epochs, m.teacher) for _, m in method.moments} == {(3, 2, None)}
    assert [m.epochs_done for name, m in method.moments if name == "end_epoch"] == [1.0, 2.0]
    assert [m.epochs_done for name, m in method.moments if name == "step"][:4] == [0, 1 / 3, 2 / 3, 1]

    data = method.data
    np.testing.assert_array_equal(data.rows, protocol.train)
    np.testing.assert_array_equal(data.labels, source.labels[protocol.train])
    assert data.unlabelled_rows.tolist() == []
    assert method.first_features.shape == (len(data.rows), hasher.network.trunk_width)
    assert (method.features[0] != method.features[1]).any()  # the MLP on embeddings is the trunk, and learns
    np.testing.assert_allclose(method.outputs[-1], hasher.hash_outputs(source.features[data.rows]), atol=1e-5)
    assert hasher.info["history"]["norm"] == pytest.approx(np.abs(method.outputs[-1]).mean())


def test_unreadable_images_are_no_outputs_of_a_method(tmp_path, monkeypatch):
    use_as_toy(monkeypatch, Recorder)
    write_pictures(tmp_path / "photos", [f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(8)])
    (tmp_path / "photos" / "cat" / "3.png").write_bytes(b"not an image")
    photos = {"data.source": str(tmp_path / "photos"), "data.split": "all", "data.on_bad_image": "skip"}
    small = {"net.backbone": "small_conv", "net.image_size": 16, "net.views": 1, "train.workers": 0}
    settings = {"method.name": "toy", "train.epochs": 1, "train.batch_size": 4, **photos, **small}
    with (
        pytest.raises(DataError, match="1 of the 16 training images of photos cannot be read, and Toy needs"),
        pytest.warns(UserWarning, match=r"3\.png"),
    ):
        Hasher.train(load_config(overrides=settings), quiet=True)
    with pytest.warns(UserWarning, match="1 broken images were skipped"):  # cached features are of readable rows only
        method = Hasher.train(load_config(overrides={**settings, "net.freeze": True}), quiet=True).method
    assert len(method.data.rows) == len(method.outputs[0]) == 15


def test_data_without_a_network_to_run_are_rejected():
    data = MethodData(np.zeros(3, np.int64), np.arange(3))
    with pytest.raises(TypeError, match="give MethodData a `read` function"):
        data.features(None)


def test_the_estimator_gives_a_method_the_same_data(monkeypatch):
    from scdh.estimator import HashTransformer

    use_as_toy(monkeypatch, Recorder)
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 3
    estimator = HashTransformer("toy", bits=8, epochs=2).fit(X, y)
    method = estimator.hasher_.method
    np.testing.assert_array_equal(method.data.labels, y)
    assert method.outputs[-1].shape == (60, 8)
    assert [moment.epoch for name, moment in method.moments if name == "end_epoch"] == [0, 1]
