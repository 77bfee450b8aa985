"""NINH against plain loops, and its head."""

import pytest
import torch

from scdh.methods.ninh import piecewise_threshold
from tests.methods.harness import WIDTH, build, draw_batch
from tests.reference.slow_methods import labelled_rows, mean, share_a_label, sigmoid, squared_distance


def slow_triplets(hs, ys, margin):
    """The hinge over all triplets of labelled rows, mean."""
    rows = labelled_rows(hs, ys)
    values = []
    for i, (h, y) in enumerate(rows):
        for j, (near, near_y) in enumerate(rows):
            for far, far_y in rows:
                if i != j and share_a_label(y, near_y) and not share_a_label(y, far_y):
                    values.append(max(0.0, margin + squared_distance(h, near) - squared_distance(h, far)))
    return mean(values)


def slow_loss(net, method, batch, moment):
    hs = [[sigmoid(x) for x in u] for u in net(batch.inputs).u.tolist()]
    return slow_triplets(hs, batch.labels.tolist(), method.settings.margin)


def test_bits_share_no_features_and_the_threshold_is_flat_outside():
    net, method = build("ninh", 12)
    x = torch.randn(3, WIDTH, dtype=torch.float64)
    before = net(x).u
    with torch.no_grad():
        net.head.hash_layer.divide.weight[:50] += 1  # the slice of the first bit
    changed = (net(x).u != before).any(0).tolist()
    assert changed == [True] + [False] * 11
    assert torch.equal(method.hash_outputs(net(x)) >= 0, net(x).u.sigmoid() >= 0.5)
    h = torch.tensor([0.1, 0.45, 0.5, 0.55, 0.9], requires_grad=True)
    cut = piecewise_threshold(h, 0.1)
    cut.sum().backward()
    assert cut.tolist() == pytest.approx([0, 0.45, 0.5, 0.55, 1])
    assert h.grad.tolist() == [0, 1, 1, 1, 0]
    net, method = build("ninh", 12, settings={"piecewise": 0.2})
    assert torch.isfinite(method.step(net, draw_batch("mixed", False))["loss"])


def test_a_plain_head_is_one_linear_layer():
    net, method = build("ninh", 12, settings={"head": "plain"})
    assert {key: tuple(p.shape) for key, p in net.head.named_parameters()} == {
        "hash_layer.weight": (12, WIDTH),
        "hash_layer.bias": (12,),
    }
    batch = draw_batch("mixed", False)
    assert method.step(net, batch)["loss"].item() == pytest.approx(slow_loss(net, method, batch, None), rel=1e-6)
