"""What the training loop offers to a method and calls it with, by toy methods that use it."""

from collections import Counter

import numpy as np
import pytest
import torch

from scdh.codes import Codes
from scdh.config import load_config
from scdh.errors import ConfigError, DataError
from scdh.methods.base import Method, MethodData, Moment
from scdh.model.hasher import Hasher
from scdh.nets.heads import HashHead
from scdh.runs.encoding import encode_rows, hash_outputs_of_features
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.loop import train_epochs
from tests.data.data_files import write_pictures
from tests.methods.harness import checkpoint_tensors, same_results
from tests.methods.toys import ABOUT, Toy, digits, use_as_toy
from tests.training.settled import as_settings


class Longer(Toy):
    """Codes of twice the length that the user asked for, read from other signs than those of u."""

    @property
    def code_bits(self):
        return 2 * self.bits

    def hash_outputs(self, outputs):
        return outputs.u - 0.25

    def signs(self, net, u):
        return -u


class TwoViews(Toy):
    views = 2

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.batches = []

    def step(self, net, batch, moment):
        self.batches.append(batch)
        return super().step(net, batch, moment)


def test_a_parameter_of_the_method_learns_is_in_the_checkpoint_and_resumes(tmp_path, monkeypatch):
    use_as_toy(monkeypatch, Toy)
    hasher = Hasher.train(digits(), tmp_path / "whole", quiet=True)
    torch.manual_seed(0)
    untrained = Hasher.build(digits(), hasher.label_names, False, 64)
    learned = hasher.method.classifier.detach()
    assert (learned - untrained.method.classifier).abs().min() > 0
    assert checkpoint_tensors(tmp_path / "whole")["method.classifier"] == learned.numpy().tobytes()
    assert not [name for name in hasher.network.state_dict() if "classifier" in name]

    def stop(self, net, data, moment):
        if moment.epoch == 2:
            raise KeyboardInterrupt
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(Toy, "end_epoch", stop)
        with pytest.raises(KeyboardInterrupt):
            Hasher.train(digits(), tmp_path / "stopped", quiet=True)
    Hasher.train(digits(), tmp_path / "stopped", resume=True, quiet=True)
    assert checkpoint_tensors(tmp_path / "whole") == checkpoint_tensors(tmp_path / "stopped")
    for name in ("model/model.safetensors", "steps.csv"):
        assert same_results(tmp_path / "whole" / name, tmp_path / "stopped" / name), name


def test_gradients_of_the_methods_parameters_are_clipped_too(monkeypatch):
    use_as_toy(monkeypatch, Toy)
    free, clipped = (Hasher.train(digits(**{"train.clip_norm": norm}), quiet=True) for norm in (None, 1e-3))
    assert not torch.equal(free.method.classifier, clipped.method.classifier)


def test_a_method_may_have_codes_of_another_length_and_read_them_its_own_way(tmp_path, monkeypatch):
    use_as_toy(monkeypatch, Longer)
    hasher = Hasher.train(digits(), tmp_path, quiet=True)
    vectors = np.random.default_rng(0).uniform(0, 16, (20, 64)).astype(np.float32)
    codes, u = hasher.encode(vectors), hasher.hash_outputs(vectors)
    assert (hasher.bits, codes.bits, u.shape) == (16, 16, (20, 16))
    raw = hasher.network(torch.from_numpy(vectors)).u.detach().numpy()
    np.testing.assert_allclose(u, raw - 0.25, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(codes.unpack(), -u >= 0)
    features = hasher.network.features(torch.from_numpy(vectors)).detach().numpy()
    np.testing.assert_allclose(
        hash_outputs_of_features(hasher.method, hasher.network.on_features(), features), u, atol=1e-6
    )
    loaded = Hasher.load(tmp_path)
    assert loaded.encode(vectors) == codes
    source = source_of(hasher.config)
    rows = protocol_of(hasher.config, source).query
    row_codes, _ = encode_rows(loaded, source, rows)
    assert row_codes.packed.shape == (len(rows), 2)


def test_two_views_need_no_unlabelled_rows(monkeypatch):
    use_as_toy(monkeypatch, TwoViews)
    images = as_settings(
        "data.source=digits-images net.backbone=small_conv net.image_size=8 net.hidden=[] net.dropout=none "
        "net.views=3 train.epochs=1 train.augmentation=shift train.workers=0"
    )
    for freeze in (False, True):
        method = Hasher.train(digits(**images, **{"net.freeze": freeze}), quiet=True).method
        assert len(method.batches) == 3
        for batch in method.batches:
            (second_view,) = batch.other_views
            assert (batch.labels >= 0).all()
            assert second_view.shape == batch.inputs.shape
        assert any((batch.inputs != batch.other_views[0]).any() for batch in method.batches)
    vectors = Hasher.train(digits(**{"train.epochs": 1}), quiet=True).method
    assert all(torch.equal(batch.inputs, batch.other_views[0]) for batch in vectors.batches)


def test_verbs_that_a_method_does_not_have_say_so():
    class Bare(Method):
        about = ABOUT

    method = Bare(None, 8, 3, multi_label=False)
    with pytest.raises(TypeError, match="Bare has no step; it is fitted, not trained"):
        method.step(None, None)
    with pytest.raises(TypeError, match="Bare has no fit; it is trained step by step"):
        method.fit(None, np.zeros((2, 2)), np.zeros(2), seed=0)
    codes = Codes.from_signs(np.ones((3, 8)))
    with pytest.raises(ConfigError, match="ranks by Hamming distance, which needs no tables"):
        method.distances(None, np.zeros((2, 2)), codes)
    with pytest.raises(ConfigError, match="ranks by Hamming distance, which needs no tables"):
        method.outputs_of_codes(None, codes)
    assert (method.code_bits, method.teacher_decay(100), method.end_epoch(None, None, Moment())) == (8, 0.0, {})


def test_a_head_without_a_hash_layer_is_trained_and_saved(tmp_path, monkeypatch):
    class Sharp(HashHead):
        def forward(self, x):
            return super().forward(x).tanh()

    class WithOwnHead(Toy):
        def build(self, net):
            super().build(net)
            net.head = Sharp(net.width, net.bits)

    use_as_toy(monkeypatch, WithOwnHead)
    hasher = Hasher.train(digits(), tmp_path, quiet=True)
    vectors = np.random.default_rng(0).uniform(0, 16, (20, 64)).astype(np.float32)
    assert np.abs(hasher.hash_outputs(vectors)).max() <= 1
    assert Hasher.load(tmp_path).encode(vectors) == hasher.encode(vectors)


def test_training_can_be_called_without_a_run_folder(monkeypatch):
    """The loop on its own: a network, a method, and batches from anywhere."""
    from scdh.data.arrays.memory import ArraySource
    from scdh.data.batches.loaders import training_batches
    from scdh.training.processes import make_accelerator

    use_as_toy(monkeypatch, Toy)
    config = digits(**{"train.epochs": 2})
    X, y = np.random.default_rng(0).normal(size=(80, 64)).astype(np.float32), np.arange(80) % 4
    source = ArraySource(X, y, list("abcd"), name="X")
    hasher = Hasher.build(config, source.label_names, False, 64)
    rows, reported = np.arange(80), list[dict[str, float]]()
    trained = train_epochs(
        hasher.network,
        hasher.method,
        MethodData(y, rows),
        lambda epoch: training_batches(source, rows, batch_size=40, seed=0, epoch=epoch),
        2,
        config.train,
        accelerator=make_accelerator("fp32"),
        each_epoch=reported.append,
        prepare_seconds=1e6,
        quiet=True,
    )
    assert reported == trained.progress.history
    assert reported[0]["seconds"] > 1e6 > reported[1]["seconds"]
    assert reported[0]["items_per_second"] > 1
    assert trained.student is None
    assert trained.net is hasher.network
    assert trained.progress.epochs_done == len(trained.progress.history) == 2


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
