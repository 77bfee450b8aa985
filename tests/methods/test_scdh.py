"""SCDH against plain loops, in all forms of its loss."""

import numpy as np
import pytest
import torch

from scdh.errors import ConfigError
from scdh.methods.base import MethodData
from scdh.methods.scdh import objective
from scdh.model.hasher import Hasher
from tests.methods.harness import CLASSES, WIDTH, build, digits, draw_batch
from tests.reference.slow_losses import quantization, scul, scul_hinge, scul_own, softmax_loss

ALL_ROW_PARTS = {"l_q"}
TRAINING = {"method.form": "hinge"}  # the other form is trained by many tests


def slow_loss(net, method, batch, moment):
    losses = [slow_loss_at(b, net, method, batch) for b in {*method.settings.nested, method.bits}]
    return sum(losses) / len(losses)


def slow_loss_at(b, net, method, batch):
    """Of the first b bits alone."""
    s, outputs, ys = method.settings, net(batch.inputs), batch.labels.tolist()
    us, logits = outputs.u[:, :b].tolist(), net.head.fc8(outputs.hidden).tolist()
    centres = net.head.centres[:, :b].tolist()
    if s.form == "hinge":
        cluster = scul_hinge(us, ys, centres, s.lam, s.margin)
    else:
        cluster = (scul_own if s.form == "own" else scul)(us, ys, centres, s.lam)
    return cluster + s.mu * softmax_loss(logits, ys) + s.alpha * quantization(us, s.p)


@pytest.mark.parametrize("form", ["hinge", "own"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_the_other_forms_equal_the_slow_twin(multi_label, form):
    net, method = build("scdh", 13, multi_label, {"form": form, "margin": 2.0, "lam": 0.1, "p": 2.0})
    batch = draw_batch("mixed", multi_label)
    losses = method.step(net, batch)
    assert losses["loss"].item() == pytest.approx(slow_loss(net, method, batch, None), rel=1e-9)
    assert losses.keys() == {"loss", "scul", "l_1", "l_q"}


@pytest.mark.parametrize("form", ["softmax", "hinge", "own"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_nested_codes_equal_the_slow_twin(multi_label, form):
    settings = {"form": form, "lam": 0.1, "alpha": 0.7}
    net, method = build("scdh", 13, multi_label, {**settings, "nested": [1, 12, 5, 12]})
    batch = draw_batch("mixed", multi_label)
    assert net.head.lengths == [1, 5, 12, 13]
    assert method.step(net, batch)["loss"].item() == pytest.approx(slow_loss(net, method, batch, None), rel=1e-9)
    u = net(batch.inputs).u.detach().requires_grad_()
    logits = torch.zeros(len(u), CLASSES, dtype=torch.float64)

    def loss(u, centres):
        return objective(method.settings, net.head, u, logits, batch.labels)["loss"]

    assert torch.autograd.gradcheck(loss, (u, net.head.centres))


def test_a_nested_code_longer_than_the_code_is_rejected():
    with pytest.raises(ConfigError, match=r"^method.nested must be at most method.bits, 12, not 24.$"):
        build("scdh", 12, settings={"nested": [8, 24]})


def test_warm_up_keeps_centre_norms_for_the_first_epochs():
    warm = digits("scdh", 2, **{"method.warm_up_epochs": 2, "method.warm_up_norm": 4.0})
    hasher = Hasher.train(warm, quiet=True)
    np.testing.assert_allclose(np.linalg.norm(hasher.centres, axis=1), 4.0, rtol=1e-5)
    assert hasher.info["history"]["centre_norm"] == pytest.approx(4.0)
    free = Hasher.train(digits("scdh", 2), quiet=True)
    assert np.ptp(np.linalg.norm(free.centres, axis=1)) > 0.01


@pytest.mark.parametrize("mu", [0.0, 0.2])
@pytest.mark.parametrize("sampled", [1, 3, 99])
def test_sampled_centres_train_without_fc8_if_it_has_no_weight(sampled, mu):
    net, method = build("scdh", 13, settings={"sampled": sampled, "mu": mu, "nested": [5]})
    losses = method.step(net, draw_batch("mixed", False))
    assert losses["loss"].isfinite()
    assert ("fc8.weight" in net.head.state_dict(), bool(losses["l_1"])) == (mu > 0, mu > 0)
    if sampled == 99:
        plain, other = build("scdh", 13, settings={"mu": mu, "nested": [5]})
        plain.load_state_dict(net.state_dict(), strict=False)
        assert other.step(plain, draw_batch("mixed", False))["loss"] == losses["loss"]


@pytest.mark.parametrize("bits", [2, 12])  # fewer and more than features
def test_the_start_from_classes_gives_their_means_as_centres(bits):
    net, method = build("scdh", bits, settings={"start": "classes"})
    rng, labels = np.random.default_rng(0), np.array([0, 0, 0, 1, 1, 3, 3, 4, 4, -1] * 6)
    means = rng.normal(size=(CLASSES, WIDTH))
    x = torch.from_numpy(means[labels] + 0.01 * rng.normal(size=(len(labels), WIDTH))).to(net.head.centres.dtype)
    before = net.head.centres.detach().clone()
    with torch.no_grad():
        method.prepare(net, MethodData(labels, np.arange(len(x)), read=lambda net, value: value(net(x)).numpy()))
        u = net(x).u
    for label in range(CLASSES):
        expected = before[label] if label == 2 else u[labels == label].mean(0)  # no row has label 2
        torch.testing.assert_close(net.head.centres[label].detach(), expected)
    torch.testing.assert_close(u[labels >= 0].abs().mean(), u.new_tensor(1.0))
    if bits == 12:  # rows of one class have one code
        assert all(len((u[labels == label] >= 0).unique(dim=0)) == 1 for label in (0, 1, 3, 4))


def test_settings_for_many_classes_that_contradict_others_are_rejected():
    with pytest.raises(ConfigError, match=r"^method.form=own needs all centres; set method.sampled=none.$"):
        build("scdh", 12, settings={"sampled": 5, "form": "own"})
    for settings in ({"sampled": 5}, {"start": "classes"}):
        with pytest.raises(ConfigError, match="need one label per row, but rows have several"):
            build("scdh", 12, True, settings)
    with pytest.raises(ConfigError, match=r"^MT-SCDH compares the distances to all centres; set method.sampled=none.$"):
        build("mt_scdh", 12, settings={"sampled": 5})
