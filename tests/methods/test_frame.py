"""What the training loop offers to a method, by toy methods that use it."""

import numpy as np
import pytest
import torch

from scdh.codes import Codes
from scdh.config import load_config, preset_names
from scdh.errors import ConfigError
from scdh.methods import registry
from scdh.methods.base import About, Method, MethodData, Moment
from scdh.model.hasher import Hasher
from scdh.nets.heads import HashHead
from scdh.runs.encoding import encode_rows, hash_outputs_of_features
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.loop import train_epochs
from tests.methods.harness import checkpoint_tensors, same_results
from tests.methods.toys import ABOUT, Toy, digits, use_as_toy


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
    images = {
        "data.source": "digits-images",
        "net.backbone": "small_conv",
        "net.image_size": 8,
        "net.hidden": [],
        "net.dropout": None,
        "net.views": 3,
        "train.epochs": 1,
        "train.augmentation": "shift",
        "train.workers": 0,
    }
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
    assert (method.code_bits, method.teacher_decay, method.end_epoch(None, None, Moment())) == (8, 0.0, {})


def test_a_method_rejects_labels_it_cannot_use():
    class OneLabel(Method):
        about = About("OneLabel", "unary", 2000, "none", cost="none", fidelity="variant", labels=("single",))

    with pytest.raises(ConfigError, match=r"^OneLabel learns from single-label data only, not multi-label data\.$"):
        OneLabel(None, 8, 3, multi_label=True)


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


def test_every_preset_can_be_read():
    assert {load_config(preset).method.name for preset in preset_names()} <= set(registry.method_names())


def test_training_can_be_called_without_a_run_folder(monkeypatch):
    """The loop on its own: a network, a method, and batches from anywhere."""
    from scdh.data.arrays.memory import ArraySource
    from scdh.data.batches.loaders import training_batches
    from scdh.training.device import make_accelerator

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
