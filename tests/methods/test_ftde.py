"""FTDE against plain loops: its loss, the quadratic form, blocks and cuts, and the order in which bits are added."""

import itertools
import math

import numpy as np
import pytest
import torch

from scdh.errors import TrainingError
from scdh.methods.base import Moment
from scdh.nets.graph_cuts import TripletForm, cut, draw_blocks, draw_triplets, infer_bit, infer_codes
from tests.methods.harness import build, draw_batch, prepare
from tests.reference.slow_methods import mean, sigmoid

TRAINING = {"method.triplets": 50, "method.bits": 16}


def slow_loss(net, method, batch, moment):
    row_codes = dict(zip(method.codes.rows.tolist(), method.codes.positions.tolist(), strict=True))
    values = []
    for row, u in zip(batch.rows.tolist(), net(batch.inputs).u.tolist(), strict=True):
        code = method.codes.outputs[row_codes[row]].tolist() if row in row_codes else []
        if any(code):
            values.append(sum(-math.log(sigmoid(t * x)) for t, x in zip(code, u, strict=True) if t))
    return mean(values)


def slow_objective(triplets, codes, bit):
    """Σ max(0, r/2 − d_H(i, k) + d_H(i, j)) for codes of r bits."""
    total = 0.0
    for i, j, k in zip(*triplets, strict=True):
        far = sum(codes[i][t] != codes[k][t] for t in range(bit))
        near = sum(codes[i][t] != codes[j][t] for t in range(bit))
        total += max(0.0, bit / 2 - far + near)
    return total


def triplets_of(labels, per_anchor=30, seed=0):
    return draw_triplets(np.array(labels), per_anchor, np.random.default_rng(seed))


def test_triplets_are_different_and_as_many_as_there_are():
    labels = [0, 0, 0, 1, 1, 2]
    triplets = list(zip(*triplets_of(labels), strict=True))
    everything = {
        (i, j, k)
        for i, j, k in itertools.product(range(6), repeat=3)
        if i != j and labels[i] == labels[j] and labels[i] != labels[k]
    }
    assert len(triplets) == len(everything)
    assert set(triplets) == everything
    few = list(zip(*triplets_of(labels, per_anchor=2), strict=True))
    assert len(few) == len(set(few)) == 10  # the row of a class of its own has none
    assert set(few) <= everything
    assert all(len(part) == 0 for part in triplets_of([1, 1, 1]))


@pytest.mark.parametrize("earlier_bits", [0, 1, 2, 5])
def test_the_quadratic_form_is_the_triplet_loss_up_to_a_constant(earlier_bits):
    rng = np.random.default_rng(earlier_bits)
    triplets = triplets_of([0, 0, 1, 1, 2, 2])
    form = TripletForm(triplets, 6)
    earlier = rng.choice([-1, 1], (6, earlier_bits))
    matrix = form.matrix(form.distances(earlier), earlier_bits + 1).toarray()
    assert (matrix == matrix.T).all()
    differences = set()
    for z in itertools.product([-1, 1], repeat=6):
        codes = np.column_stack([earlier, z])
        z = np.array(z)
        differences.add(slow_objective(triplets, codes.tolist(), earlier_bits + 1) - (z @ matrix @ z) / 16)
    assert max(differences) - min(differences) < 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_a_cut_is_the_best_of_all_labellings_of_its_block(seed):
    rng = np.random.default_rng(seed)
    form = TripletForm(triplets_of(rng.integers(0, 3, 14), per_anchor=6, seed=seed), 14)
    matrix = form.matrix(form.distances(rng.choice([-1, 1], (14, 3))), 4)
    dense, blocks = matrix.toarray(), draw_blocks(matrix, rng)
    assert set(np.concatenate(blocks).tolist()) == set(range(14))
    z = rng.choice([-1, 1], 14)
    for block in blocks:
        assert dense[np.ix_(block, block)].max() <= 0
        values, other = [], z.copy()
        for labels in itertools.product([-1, 1], repeat=len(block)):
            other[block] = labels
            values.append(other @ dense @ other)
        found = z.copy()
        found[block] = cut(matrix, z, block)
        assert found @ dense @ found == min(values)


def test_a_pass_of_cuts_lowers_the_loss_and_separates_classes():
    labels = np.repeat([0, 1, 2, 3], 8)
    form = TripletForm(triplets_of(labels, per_anchor=200), 32)
    matrix = form.matrix(form.distances(np.empty((32, 0), int)), 1)
    z = infer_bit(matrix, np.random.default_rng(3))
    assert z @ matrix.toarray() @ z < matrix.sum()  # of all +1
    codes = infer_codes(form, np.empty((32, 0), np.int64), 8, np.random.default_rng(0))
    assert (codes == infer_codes(form, np.empty((32, 0), np.int64), 8, np.random.default_rng(0))).all()
    distances, same = (codes[:, None] != codes).sum(2), labels[:, None] == labels
    assert distances[same].max() == 0
    assert distances[~same].min() == 4  # half of the bits, the margin


def test_bits_are_added_in_groups_and_follow_what_the_network_predicts(monkeypatch):
    net, method = build("ftde", 20)
    batch = draw_batch("mixed", False)
    data = prepare(net, method, batch)  # with a step in epoch 2 of 30
    known = (data.labels >= 0).tolist()
    assert [method._bits_at(epoch, 30) for epoch in (0, 4, 5, 9, 10, 14, 29, 30)] == [8, 8, 16, 16, 20, 20, 20, 20]
    assert [method._bits_at(epoch, 2) for epoch in range(2)] == [20, 20]
    assert method.codes.outputs.ne(0).any(0).tolist() == [True] * 8 + [False] * 12
    assert method.codes.outputs[:, :8].abs().eq(1).all(1).tolist() == known
    seen = []
    monkeypatch.setattr(
        "scdh.methods.ftde.infer_codes",
        lambda form, earlier, bits, rng: seen.append(earlier) or np.ones((len(earlier), bits), np.int64),
    )
    before = method.codes.outputs.clone()
    assert method.end_epoch(net, data, Moment(3, 4, 4, 30)) == {"bits_inferred": 8.0}
    assert method.end_epoch(net, data, Moment(4, 4, 4, 30)) == {"bits_inferred": 16.0}
    (earlier,) = seen
    np.testing.assert_array_equal(earlier, np.where(data.u(net)[np.flatnonzero(known)][:, :8] >= 0, 1, -1))
    assert torch.equal(method.codes.outputs[:, :8], before[:, :8])
    assert method.codes.outputs[:, 8:16].eq(1).all(1).tolist() == known
    with pytest.raises(TrainingError, match="call prepare"):
        build("ftde", 8)[1].step(net, batch)


def test_some_rows_may_be_left_out():
    net, method = build("ftde", 8, settings={"most_rows": 4})
    prepare(net, method, draw_batch("mixed", False))
    assert method.codes.outputs.ne(0).any(1).sum() == 4
