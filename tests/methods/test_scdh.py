"""SCDH against plain loops, in all forms of its loss."""

import numpy as np
import pytest

from scdh.model.hasher import Hasher
from tests.methods.harness import build, digits, draw_batch
from tests.reference.slow_losses import quantization, scul, scul_hinge, scul_own, softmax_loss

ALL_ROW_PARTS = {"l_q"}
TRAINING = {"method.form": "hinge"}  # the other form is trained by many tests


def slow_loss(net, method, batch, moment):
    s, outputs, ys = method.settings, net(batch.inputs), batch.labels.tolist()
    us, logits, centres = outputs.u.tolist(), net.head.fc8(outputs.hidden).tolist(), net.head.centres.tolist()
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


def test_warm_up_keeps_centre_norms_for_the_first_epochs():
    warm = digits("scdh", 2, **{"method.warm_up_epochs": 2, "method.warm_up_norm": 4.0})
    hasher = Hasher.train(warm, quiet=True)
    np.testing.assert_allclose(np.linalg.norm(hasher.centres, axis=1), 4.0, rtol=1e-5)
    assert hasher.info["history"]["centre_norm"] == pytest.approx(4.0)
    free = Hasher.train(digits("scdh", 2), quiet=True)
    assert np.ptp(np.linalg.norm(free.centres, axis=1)) > 0.01
