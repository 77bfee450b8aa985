"""CSQ against plain loops, and its hash centres."""

import math

import pytest
import torch

from scdh.nets.hash_centres import hash_centres, voted_targets
from tests.methods.harness import build, draw_batch
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import batch_likelihood, corners, labelled_rows, mean


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
    s, quantization = method.settings, corners(tanh, ys, 2) / len(us[0])
    if s.form == "paper":
        return central + (1e-4 if s.corner_weight is None else s.corner_weight) * quantization
    similar, dissimilar = batch_likelihood(tanh, ys, 10 / len(us[0]))
    weight = 0.05 if s.corner_weight is None else s.corner_weight
    return central + weight * quantization + s.pair_weight * mean(similar + dissimilar)


@pytest.mark.parametrize("settings", [{}, {"corner_weight": 0.7, "pair_weight": 0.4}, {"pair_weight": 0.0}])
@pytest.mark.parametrize("multi_label", [False, True])
def test_the_authors_release_equals_the_slow_twin(multi_label, settings):
    net, method = build("csq", 13, multi_label, {"form": "release", **settings})
    batch = draw_batch("mixed", multi_label)
    losses = method.step(net, batch)
    assert losses["loss"].item() == pytest.approx(slow_loss(net, method, batch, None), rel=1e-9)
    assert losses.keys() == {"loss", "central", "corners", "pairs"}


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


def test_rows_are_drawn_and_those_of_equal_bits_come_last():
    torch.manual_seed(0)
    assert torch.linalg.matrix_rank(hash_centres(10, 32)) == 10
    assert hash_centres(10, 32).T.unique(dim=0).shape[0] > 24  # bits that are not copies of each other
    assert hash_centres(10, 32, drawn=False).T.unique(dim=0).shape[0] == 16
    for classes in (1, 31, 32, 62):
        assert (hash_centres(classes, 32).sum(1) == 0).all()
    assert (hash_centres(64, 32).sum(1) != 0).sum() == 2
    first = hash_centres(3, 4, drawn=False)
    assert first.tolist() == [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]]
    assert not torch.equal(hash_centres(10, 32), hash_centres(10, 32))


@pytest.mark.parametrize(("classes", "bits"), [(10, 12), (10, 48), (33, 16)])
def test_without_a_hadamard_matrix_first_rows_change_nothing(classes, bits):
    """Numbers of bits that are not a power of two, or too few for the classes, as the setting says."""
    centres = []
    for drawn in (True, False):
        torch.manual_seed(0)
        centres.append(hash_centres(classes, bits, drawn=drawn))
    assert torch.equal(*centres)


def test_many_labels_vote_and_ties_are_broken_the_same_way():
    centres = torch.tensor([[1.0, 1, -1, -1], [1, -1, -1, 1], [1, 1, 1, -1]])
    ties = torch.tensor([-1.0, 1, -1, 1])
    y = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.uint8)
    assert voted_targets(y, centres, ties).tolist() == [[1, 1, -1, -1], [1, 1, -1, 1], [1, 1, -1, -1]]
    assert torch.equal(voted_targets(torch.tensor([2, 0]), centres, ties), centres[[2, 0]])
