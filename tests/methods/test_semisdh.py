"""SemiSDH against plain loops, its candidates by hand, and what unlabelled rows bring."""

import math

import pytest
import torch

from scdh.losses import neighbour_loss, pseudo_label_loss
from tests.methods.harness import build
from tests.methods.test_ninh import slow_triplets
from tests.reference.slow_losses import distance, label_set
from tests.reference.slow_methods import labelled_rows, linear, mean, sigmoid

ALL_ROW_PARTS = {"neighbours", "pseudo"}
TRAINING = {"train.epochs": 30, "train.lr_head": 0.005}


def slow_neighbours(hs, near, far, margin):
    values = []
    for h in hs:
        ordered = sorted(distance(h, other) for other in hs)
        if ordered[far[0] : far[1]]:
            attraction = mean([d**2 for d in ordered[:near]])
            values.append((attraction + mean([max(0, margin - d) ** 2 for d in ordered[far[0] : far[1]]])) / 2)
    return mean(values)


def slow_pseudo(hs, scores, ys, margin):
    sets = [set(label_set(y)) for y in ys]
    best = [max(range(len(row)), key=row.__getitem__) for row in scores]
    worst = [min(range(len(row)), key=row.__getitem__) for row in scores]
    values = []
    for i, h in enumerate(hs):
        if sets[i]:
            continue
        positive, negative = [], []
        for j, other in enumerate(hs):
            classes = sets[j] or {best[j]}
            d = distance(h, other)
            if best[i] in classes and worst[i] not in classes:
                positive.append(d**2)
            elif worst[i] in classes and best[i] not in classes:
                negative.append(max(0, margin - d) ** 2)
        if positive and negative:
            values.append((mean(positive) + mean(negative)) / 2)
    return mean(values)


def slow_loss(net, method, batch, moment):
    s, ys, outputs = method.settings, batch.labels.tolist(), net(batch.inputs)
    hs = [[sigmoid(x) for x in u] for u in outputs.u.tolist()]
    scores = [linear(x, net.head.fc8) for x in outputs.hidden.tolist()]
    is_short, size = method.bits <= 12, len(hs)
    margin = 2.5 if is_short else 3.0
    first = max(1, math.floor(size * (120 if is_short else 114) / 128))
    far = first, max(first + 1, math.floor(size * 124 / 128))
    neighbours = slow_neighbours(hs, max(1, min(8, size // 3)), far, margin)
    squares = [
        sum((sigmoid(x) - (k in label_set(y))) ** 2 for k, x in enumerate(row)) / 2
        for row, y in labelled_rows(scores, ys)
    ]
    unlabelled = neighbours + slow_pseudo(hs, scores, ys, margin)
    return slow_triplets(hs, ys, s.rank_margin) / 2 + s.weight * unlabelled + mean(squares)


def test_far_rows_of_the_releases_batch_are_its_own():
    assert build("semisdh", 12)[1].far_places(128) == (120, 124)
    assert build("semisdh", 24)[1].far_places(128) == (114, 124)
    assert build("semisdh", 24)[1].far_places(2) == (1, 2)


def test_neighbours_by_hand():
    # On a line at 0, 1 and 3: nearest two are (0, 1), (0, 1), (0, 2) away, farthest 3, 2, 3; margin 2.5.
    h = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True)
    value = neighbour_loss(h, 2, (2, 3), 2.5)
    assert value.item() == pytest.approx(((0 + 1 + 0 + 1 + 0 + 4) / 6 + (0 + 0.25 + 0) / 3) / 2)
    value.backward()
    assert h.grad.sum().item() == pytest.approx(0, abs=1e-6)  # moving all rows alike changes nothing
    assert neighbour_loss(h[:1], 1, (1, 2), 2.5).item() == 0


def test_predicted_classes_by_hand():
    # Row 0 has no label, class 0 predicted and class 2 least likely. Row 1 has label 0, row 2 label 2, row 3 label 1.
    h = torch.tensor([[0.0], [2.0], [0.5], [9.0]])
    scores = torch.tensor([[3.0, 1.0, -1.0]]).repeat(4, 1)
    value = pseudo_label_loss(h, scores, torch.tensor([-1, 0, 2, 1]), 1.0)
    assert value.item() == pytest.approx(((0 + 4) / 2 + 0.25) / 2)
    # A row with both classes is neither.
    y = torch.tensor([[0, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0]])
    assert pseudo_label_loss(h, scores, y, 1.0).item() == pytest.approx((0 + 0.25) / 2)
    assert pseudo_label_loss(h, scores, torch.tensor([-1, 0, 0, 1]), 1.0).item() == 0
