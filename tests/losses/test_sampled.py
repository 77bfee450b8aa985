"""SCUL with sampled centres: its slow twin, equality with all centres, gradients, and what it rejects."""

import math

import pytest
import torch
from torch.func import functional_call

from scdh.errors import ConfigError, DataError
from scdh.losses import SemanticClusterUnaryLoss
from scdh.losses.sampled import sample_classes

CLASSES = 40


def draw(bits: int = 12) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(bits)
    u, centres = (torch.randn(n, bits, generator=generator, dtype=torch.float64) for n in (6, CLASSES))
    return u, torch.tensor([3, 30, -1, 3, 7, 39]), centres


class DenseGradient(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        return gradient.to_dense()


def sampled_loss(u, y, centres, draws, lam=0.3, lengths=None):
    loss = SemanticClusterUnaryLoss(*centres.shape, lam, sampled=draws)
    torch.manual_seed(5)
    return functional_call(loss, {"centres": centres}, (u, y, lengths))


def slow_loss(u, y, centres, classes, lam):
    """Plain loops over P ∪ N = ``classes``."""
    own = {label for label in y if label >= 0}
    weight = (len(centres) - len(own)) / max(len(set(classes) - own), 1)
    values = []
    for vector, label in zip(u, y, strict=True):
        if label >= 0:
            total = sum((1 if j in own else weight) * math.exp(-math.dist(vector, centres[j])) for j in classes)
            distance = math.dist(vector, centres[label])
            values.append(-math.log(math.exp(-distance) / total) + lam * distance)
    return sum(values) / len(values)


@pytest.mark.parametrize("bits", [1, 12, 13, 64, 128])
@pytest.mark.parametrize("draws", [1, 10, 39])
def test_it_equals_the_slow_twin(bits, draws):
    u, y, centres = draw(bits)
    torch.manual_seed(5)
    classes = sample_classes(y, CLASSES, draws)[0].tolist()
    assert classes == sorted({*classes, 3, 7, 30, 39})
    assert len(classes) <= 4 + draws
    value = sampled_loss(u, y, centres, draws).item()
    assert value == pytest.approx(slow_loss(u.tolist(), y.tolist(), centres.tolist(), classes, 0.3), rel=1e-6)


@pytest.mark.parametrize("lengths", [None, [4, 12]])
def test_with_all_classes_it_is_the_plain_loss(lengths):
    u, y, centres = draw()
    results = []
    for draws in (None, CLASSES):
        parts = [u.clone().requires_grad_(), centres.clone().requires_grad_()]
        value = sampled_loss(parts[0], y, parts[1], draws, lengths=lengths)
        value.backward()
        results.append((value.detach(), parts[0].grad, parts[1].grad.to_dense()))
    for found, expected in zip(*results, strict=True):
        assert torch.equal(found, expected)


def test_gradients_by_finite_differences_are_sparse():
    u, y, centres = draw()

    def loss(u, centres):
        return sampled_loss(u, y, DenseGradient.apply(centres), 8, lengths=[5, 12])

    assert torch.autograd.gradcheck(loss, (u.requires_grad_(), centres.requires_grad_()))
    module = SemanticClusterUnaryLoss(1000, 12, sampled=20)
    module(u.float(), y).backward()
    assert module.centres.grad.is_sparse
    assert module.centres.grad._indices().shape[1] <= 24


def test_the_sum_over_a_sample_has_the_right_expectation():
    y, scores = torch.tensor([3, 30, 7]), torch.randn(CLASSES, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(0)
    sums = []
    for _ in range(4000):
        classes, positions, log_weights = sample_classes(y, CLASSES, 10)
        assert classes[positions].tolist() == y.tolist()
        sums.append((scores[classes] + log_weights).exp().sum())
    found = torch.stack(sums)
    assert abs(found.mean() - scores.exp().sum()) < 4 * found.std() / len(sums) ** 0.5


def test_the_warm_up_scales_only_what_a_step_moved():
    loss = SemanticClusterUnaryLoss(1000, 8, sampled=20)
    loss.put_centres_on_sphere(2.0)
    torch.testing.assert_close(loss.centres.norm(dim=1), torch.full((1000,), 2.0))
    loss(torch.randn(4, 8), [1, 2, 3, -1]).backward()
    before = loss.centres.detach().clone()
    loss.put_centres_on_sphere(4.0)
    moved = (loss.centres != before).any(1).nonzero().flatten()
    assert moved.tolist() == loss.centres.grad.coalesce().indices()[0].tolist()


def test_batches_without_labels_and_wrong_input():
    loss = SemanticClusterUnaryLoss(10, 8, sampled=4)
    assert loss(torch.randn(2, 8), [-1, -1]).item() == 0
    assert loss(torch.randn(0, 8), []).item() == 0
    with pytest.raises(DataError, match=r"^Label 10 is out of range; labels must be 0…9, or −1 for none.$"):
        loss(torch.randn(1, 8), [10])
    with pytest.raises(DataError, match=r"^Sampled centres need one label per row, not multi-hot labels"):
        loss(torch.randn(1, 8), [[1] * 10])
    for wrong in ({"sampled": 0}, {"sampled": 5, "form": "hinge"}):
        with pytest.raises(ConfigError, match=r"^sampled must be at least 1 and needs form 'softmax', not "):
            SemanticClusterUnaryLoss(10, 8, **wrong)
