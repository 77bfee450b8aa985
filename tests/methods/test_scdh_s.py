"""SCDH-S against plain loops."""

from scdh.model.hasher import Hasher
from tests.methods.harness import digits
from tests.reference.slow_losses import quantization, softmax_loss
from tests.reference.slow_methods import inner_products

ALL_ROW_PARTS = {"l_q"}


def slow_loss(net, method, batch, moment):
    s, outputs, ys = method.settings, net(batch.inputs), batch.labels.tolist()
    us, logits = outputs.u.tolist(), net.head.fc8(outputs.hidden).tolist()
    cluster = inner_products(us, ys, net.head.classifier.tolist())
    return cluster + s.mu * softmax_loss(logits, ys) + s.alpha * quantization(us, s.p)


def test_it_has_no_centres():
    hasher = Hasher.build(digits("scdh_s"), ["a", "b"], False, 4)
    assert hasher.centres is None
    assert hasher.network.head.classifier.shape == (2, 32)
