"""DPN against plain loops, and its targets."""

import torch

from scdh.nets.hash_centres import nearest_distance, random_codes
from tests.methods.harness import build
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import labelled_rows, mean


def slow_loss(net, method, batch, moment):
    margin, targets = method.settings.margin, method.targets.tolist()
    values = []
    for u, y in labelled_rows(net(batch.inputs).u.tolist(), batch.labels.tolist()):
        hinges = [max(0.0, margin - x * t) for s in label_set(y) for x, t in zip(u, targets[s], strict=True)]
        values.append(sum(hinges) / len(u))
    return mean(values)


def test_targets_are_random_and_no_two_are_equal_where_bits_suffice():
    torch.manual_seed(0)
    for _ in range(20):
        codes = random_codes(10, 8)
        assert codes.abs().eq(1).all()
        assert nearest_distance(codes) > 0
    assert random_codes(1, 3).shape == (1, 3)
    _, method = build("dpn", 16, settings={"targets": "far"})
    assert nearest_distance(method.targets) == 8
