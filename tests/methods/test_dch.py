"""DCH against plain loops."""

import math

import pytest
import torch

from scdh import losses
from tests.reference.slow_methods import cosine, labelled_rows, mean, share_a_label

SCALE_FREE = True
TINY = 1e-6  # keeps the loss of two equal dissimilar rows finite


def slow_hamming(u, v):
    return len(u) / 2 * (1 - cosine(u, v) + TINY)


def slow_pairs(us, ys, gamma):
    """Weighted by |S|/|S₁| and |S|/|S₀| and divided by |S|: the means of both kinds of pairs."""
    rows, similar, dissimilar = labelled_rows(us, ys), [], []
    for i, (u, y) in enumerate(rows):
        for v, other in rows[:i]:
            d = slow_hamming(u, v)
            if share_a_label(y, other):
                similar.append(math.log(d / gamma) + math.log(1 + gamma / d))
            else:
                dissimilar.append(math.log(1 + gamma / d))
    return mean(similar) + mean(dissimilar)


def slow_loss(net, method, batch, moment):
    s, us, ys = method.settings, net(batch.inputs).u.tolist(), batch.labels.tolist()
    distances = [slow_hamming([abs(x) for x in u], [1.0] * len(u)) for u, _ in labelled_rows(us, ys)]
    corners = mean([math.log(1 + d / s.gamma) for d in distances])
    return slow_pairs(us, ys, s.gamma) + s.corner_weight * corners


def test_equal_rows_have_a_finite_loss():
    u = torch.ones(4, 12, requires_grad=True)
    similar, dissimilar = (losses.cauchy_pair_loss(u, torch.tensor(y), 20.0) for y in ([0, 0, 0, 0], [0, 1, 2, 3]))
    (similar + dissimilar).backward()
    assert similar.item() == pytest.approx(0, abs=1e-5)
    assert dissimilar.item() > 10
    assert torch.isfinite(u.grad).all()
