"""MDSH against plain loops, its centres, and its stored outputs."""

import math

import pytest
import torch
from safetensors import safe_open

from scdh.errors import TrainingError
from scdh.model.hasher import Hasher
from scdh.nets.hash_centres import nearest_distance, separated_centres, separating_distance
from tests.methods.harness import build, digits, draw_batch
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import corners, cosine, labelled_rows, mean, share_a_label

SCALE_FREE = True
TWIN_SETTINGS = {"pair_epoch": 1.0, "pair_weight": 0.7, "corner_weight": 0.3}
ALL_ROW_PARTS = {"central", "pairs", "corners"}  # the means and deviations of batch-norm are those of all rows


def slow_central(hs, ys, centres):
    values = []
    for h, y in labelled_rows(hs, ys):
        weights = [math.exp(math.sqrt(len(h)) * cosine(h, c)) for c in centres]
        total = 0.0
        for j, weight in enumerate(weights):
            others = sum(weights) - weight
            total -= math.log((weight if j in label_set(y) else others) / sum(weights))
        values.append(total / len(centres))
    return mean(values)


def slow_loss(net, method, batch, moment):
    s, ys = method.settings, batch.labels.tolist()
    hs = [[math.tanh(x) for x in u] for u in net(batch.inputs).u.tolist()]
    stored = list(zip(method.stored.outputs.tolist(), method.stored_labels.tolist(), strict=True))
    pairs = [
        math.log(1 + math.exp((1 - cosine(h, v)) / 2))
        for h, y in labelled_rows(hs, ys)
        for v, other in stored
        if any(v) and share_a_label(y, other)
    ]
    central = slow_central(hs, ys, method.hash_centres.tolist())
    return central + s.pair_weight * mean(pairs) + s.corner_weight * corners(hs, ys, 2) / len(hs[0])


@pytest.mark.parametrize(("classes", "bits"), [(2, 1), (10, 12), (10, 13), (21, 12), (10, 48), (100, 32), (200, 24)])
def test_centres_have_the_distance_that_the_bound_asks_for(classes, bits):
    wanted = separating_distance(classes, bits)
    words = [sum(math.comb(bits, j) for j in range(d)) * classes for d in (wanted - 1, wanted)]
    assert words[0] < 2**bits <= words[1]
    torch.manual_seed(0)
    centres = separated_centres(classes, bits)
    assert centres.shape == (classes, bits)
    assert centres.abs().eq(1).all()
    assert nearest_distance(centres) >= wanted
    torch.manual_seed(0)
    assert torch.equal(centres, separated_centres(classes, bits))


def test_pairs_begin_later_and_need_stored_outputs(tmp_path):
    net, method = build("mdsh", 12)
    with pytest.raises(TrainingError, match="call prepare"):
        method.step(net, draw_batch("mixed", False))
    hasher = Hasher.train(digits("mdsh", 3, **{"method.pair_epoch": 2}), tmp_path, quiet=True)
    lines = (tmp_path / "steps.csv").read_text("utf-8").splitlines()
    column = lines[0].split(",").index("pairs")
    pairs = [float(line.split(",")[column]) for line in lines[1:]]
    assert not any(pairs[:20])
    assert all(pairs[20:])
    with safe_open(tmp_path / "last.safetensors", framework="pt") as file:
        assert {"method.hash_centres", "method.stored.outputs"} <= set(file.keys())
    assert hasher.method.stored.seen.any()
