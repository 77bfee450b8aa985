"""GreedyHash against plain loops, and the gradient that passes through its sign."""

import torch

from scdh.methods.greedyhash import sign_straight_through
from tests.reference.slow_methods import corners, inner_products


def slow_loss(net, method, batch, moment):
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    codes = [[1.0 if x >= 0 else -1.0 for x in u] for u in us]
    classification = inner_products(codes, ys, net.head.classifier.weight.tolist())
    return classification + method.settings.corner_weight * corners(us, ys, 3) / len(us[0])


def test_the_sign_is_exact_and_its_gradient_passes_unchanged():
    u = torch.tensor([[0.3, -2.0, 0.0, -1e-9, 1e9]], requires_grad=True)
    codes = sign_straight_through(u)
    assert codes.tolist() == [[1, -1, 1, -1, 1]]
    weights = torch.tensor([[1.0, 2, 3, 4, 5]])
    (codes * weights).sum().backward()
    assert torch.equal(u.grad, weights)
