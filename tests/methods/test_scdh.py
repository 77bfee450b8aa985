"""SCDH against plain loops, in all forms of its loss."""

import numpy as np
import pytest
import torch

from scdh.errors import ConfigError
from scdh.methods.scdh import objective
from scdh.model.hasher import Hasher
from tests.methods.harness import CLASSES, build, digits, draw_batch
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
