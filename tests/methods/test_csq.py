"""CSQ against plain loops, and its hash centres."""

import math

import pytest
import torch
from safetensors import safe_open

from scdh.hasher import Hasher
from scdh.nets.hash_centres import hash_centres, voted_targets
from tests.methods.harness import digits
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import corners, labelled_rows, mean


def slow_target(y, centres, ties):
    votes = [sum(centres[s][k] for s in label_set(y)) for k in range(len(ties))]
    return [tie if vote == 0 else math.copysign(1, vote) for vote, tie in zip(votes, ties, strict=True)]


def slow_central(us, ys, centres, ties):
    """Binary cross-entropy of (tanh u + 1)/2 to the target, mean over bits and labelled rows."""
    values = []
    for u, y in labelled_rows(us, ys):
        for x, target in zip(u, slow_target(y, centres, ties), strict=True):
            p = (math.tanh(x) + 1) / 2
            values.append(-math.log(p if target > 0 else 1 - p))
    return mean(values)


def slow_loss(net, method, batch, moment):
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    tanh = [[math.tanh(x) for x in u] for u in us]
    central = slow_central(us, ys, method.hash_centres.tolist(), method.ties.tolist())
    return central + method.settings.corner_weight * corners(tanh, ys, 2) / len(us[0])


@pytest.mark.parametrize(("classes", "bits"), [(2, 1), (5, 1), (10, 32), (64, 32), (65, 32), (10, 12), (9, 13)])
def test_hash_centres_are_far_apart_and_balanced(classes, bits):
    torch.manual_seed(0)
    centres = hash_centres(classes, bits)
    assert centres.shape == (classes, bits)
    assert centres.abs().eq(1).all()
    distances = (bits - centres @ centres.T) / 2 + bits * torch.eye(classes)
    if bits == 32 and classes <= 64:
        assert distances.min() == 16
    elif bits > 1:
        assert (centres.sum(1).abs() <= 1).all()
        assert distances.min() >= 1
    torch.manual_seed(0)
    assert torch.equal(centres, hash_centres(classes, bits))


def test_many_labels_vote_and_ties_are_broken_the_same_way():
    centres = torch.tensor([[1.0, 1, -1, -1], [1, -1, -1, 1], [1, 1, 1, -1]])
    ties = torch.tensor([-1.0, 1, -1, 1])
    y = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.uint8)
    assert voted_targets(y, centres, ties).tolist() == [[1, 1, -1, -1], [1, 1, -1, 1], [1, 1, -1, -1]]
    assert torch.equal(voted_targets(torch.tensor([2, 0]), centres, ties), centres[[2, 0]])


def test_checkpoints_hold_the_targets(tmp_path):
    Hasher.train(digits("csq", 1), tmp_path, quiet=True)
    with safe_open(tmp_path / "last.safetensors", framework="pt") as file:
        assert {"method.hash_centres", "method.ties"} <= set(file.keys())
