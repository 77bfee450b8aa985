"""DHN against plain loops."""

import math

import torch

from scdh.losses import batch_likelihood_loss
from scdh.losses.quantization import log_cosh_loss
from tests.methods.harness import build, draw_batch
from tests.reference.slow_methods import dot, labelled_rows, mean, share_a_label, sigmoid


def slow_pairs(hs, ys):
    """−log likelihood of the pair labels, mean over all pairs of labelled rows, (i, i) among them."""
    rows = labelled_rows(hs, ys)
    values = []
    for h, y in rows:
        for other, other_y in rows:
            p = sigmoid(dot(h, other))
            values.append(-math.log(p if share_a_label(y, other_y) else 1 - p))
    return mean(values)


def slow_log_cosh(hs, ys):
    return mean([sum(math.log(math.cosh(abs(x) - 1)) for x in h) for h, _ in labelled_rows(hs, ys)])


def slow_loss(net, method, batch, moment):
    hs, ys = [[math.tanh(x) for x in u] for u in net(batch.inputs).u.tolist()], batch.labels.tolist()
    return slow_pairs(hs, ys) + method.settings.lam * slow_log_cosh(hs, ys)


def test_both_rows_of_a_pair_get_its_gradient():
    net, method = build("dhn", 6, settings={"lam": 0.0})
    batch = draw_batch("mixed", False)
    u = net(batch.inputs).u.detach().requires_grad_()

    class Fixed:
        def __call__(self, inputs):
            return type("Outputs", (), {"u": u})

    assert torch.autograd.gradcheck(lambda u: method.step(Fixed(), batch)["loss"] + 0 * u.sum(), (u,), atol=1e-6)


def test_gradients_are_those_of_the_authors_layers():
    """Theirs: 2/B² Σ_j (σ(θ_ij) − s_ij) h_j of the pairs, and λ/B sgn(h) tanh(|h| − 1) of the corners."""
    generator = torch.Generator().manual_seed(0)
    h = (2 * torch.rand(6, 5, generator=generator, dtype=torch.float64) - 1).requires_grad_()
    y = torch.randint(0, 3, (6,), generator=generator)
    (batch_likelihood_loss(h, y, with_itself=True) + 0.3 * log_cosh_loss(h, y)).backward()
    same, fixed = (y.unsqueeze(1) == y).double(), h.detach()
    theirs = 2 / 36 * ((fixed @ fixed.T).sigmoid() - same) @ fixed + 0.3 / 6 * fixed.sign() * (fixed.abs() - 1).tanh()
    torch.testing.assert_close(h.grad, theirs)
