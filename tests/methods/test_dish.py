"""DISH against plain loops: the losses of its rounds, its discrete step, and its table of codes."""

import numpy as np
import pytest
import torch
from safetensors import safe_open

from scdh.errors import TrainingError
from scdh.methods.base import Moment
from scdh.methods.dish import round_of
from scdh.model.hasher import Hasher
from scdh.nets.discrete import CONVEX_DIAGONAL, balanced_bit, factorise
from scdh.nets.stored import StoredOutputs
from tests.methods.harness import build, digits, draw_batch, prepare
from tests.reference.slow_losses import softmax_loss
from tests.reference.slow_methods import labelled_rows, mean

TWIN_SETTINGS = {"code_dropout": 0.0}


def slow_parts(net, batch):
    outputs, ys = net(batch.inputs), batch.labels.tolist()
    on_features = softmax_loss(net.head.fc8(outputs.hidden).tolist(), ys)
    return outputs.u.tolist(), ys, on_features, softmax_loss(net.head.classifier(outputs.u).tolist(), ys)


def slow_loss(net, method, batch, moment):
    """Round 0."""
    s, (us, ys, on_features, on_codes) = method.settings, slow_parts(net, batch)
    margin = mean([sum(max(0.0, 1 - 2 * abs(x)) ** 2 / 2 for x in u) for u, _ in labelled_rows(us, ys)])
    return on_codes + s.feature_weight * on_features + s.margin_weight * margin


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("bits", [1, 12, 13])
def test_later_rounds_equal_the_slow_twin(bits, multi_label):
    net, method = build("dish", bits, multi_label, {"hinge_weight": 0.7})
    batch = draw_batch("mixed", multi_label)
    data = prepare(net, method, batch)
    method.end_epoch(net, data, Moment(9, 4, 4, 30))
    us, _, on_features, _ = slow_parts(net, batch)
    code_of = dict(zip(data.rows.tolist(), method.codes.outputs.tolist(), strict=True))
    values = []
    for row, u in zip(batch.rows.tolist(), us, strict=True):
        code = code_of.get(row, [0.0] * bits)  # the last row of the batch is not a training row
        if any(code):
            values.append(sum(max(0.0, 1 - t * x) ** 2 / 2 for t, x in zip(code, u, strict=True)))
    loss = method.step(net, batch, Moment(10, 1, 4, 30))["loss"]
    assert 0 < len(values) < len(us)
    assert loss.item() == pytest.approx(on_features + 0.7 * mean(values), rel=1e-9)
    loss.backward()
    assert all(p.grad is not None for p in net.parameters())


def test_rounds_share_the_epochs():
    assert [round_of(epoch, 15) for epoch in range(16)] == [0] * 5 + [1] * 4 + [2] * 3 + [3] * 4
    assert [round_of(epoch, 2) for epoch in range(3)] == [0, 1, 1]
    assert round_of(0, 1) == round_of(1, 1) == 0


def slow_bit(bit, others, labels, linear, rounds=10):
    """The same with Q written out, and with objectives by loops."""
    n, bits = len(bit), others.shape[1]
    Q = np.array([[bits * (2 * labels[i] @ labels[j] - 1) - others[i] @ others[j] for j in range(n)] for i in range(n)])

    def value(h):
        return sum(Q[i, j] * h[i] * h[j] for i in range(n) for j in range(n)) + sum(linear[i] * h[i] for i in range(n))

    new = bit
    for _ in range(rounds):
        chosen = [i for i in range(n) if new[i] > 0]
        slopes = []
        for i in range(n):
            slope = sum(Q[i, j] for j in chosen) + (linear[i] / 2 - sum(Q[i])) / 2
            if i in chosen:
                slope += CONVEX_DIAGONAL - (2 * bits * sum(labels[i] ** 2) - bits)
            slopes.append(slope)
        median = sorted(slopes)[(n - 1) // 2]
        before, new = new, np.array([1.0 if slope > median else -1.0 for slope in slopes])
        if (new != before).sum() < 0.001 * n:
            break
    return new if value(new) >= value(bit) else bit, value


@pytest.mark.parametrize("seed", range(4))
def test_the_discrete_step_equals_the_slow_twin_and_never_loses(seed):
    rng = np.random.default_rng(seed)
    labels = np.eye(3)[rng.integers(0, 3, 21)]
    if seed % 2:
        labels = np.maximum(labels, rng.random((21, 3)) < 0.3)
    codes, u = rng.choice([-1.0, 1.0], (21, 6)), rng.normal(size=(21, 6))
    expected = codes.copy()
    for k in range(6):
        others = expected.copy()
        others[:, k] = 0
        slow, value = slow_bit(expected[:, k], others, labels, 0.5 * 0.7 * u[:, k])
        arguments = [torch.from_numpy(x) for x in (expected[:, k], others, labels, 0.35 * u[:, k])]
        assert balanced_bit(*arguments).tolist() == slow.tolist()
        assert value(slow) >= value(expected[:, k])
        expected[:, k] = slow
    found = factorise(*(torch.from_numpy(x) for x in (codes, labels, u)), 0.7)
    assert found.tolist() == expected.tolist()
    similarity = 2 * labels @ labels.T - 1

    def distance(h):
        return ((6 * similarity - h @ h.T) ** 2).sum()

    assert distance(expected) < distance(codes)


def test_codes_of_unlabelled_rows_are_0_and_a_checkpoint_holds_the_others(tmp_path):
    net, method = build("dish", 12)
    batch = draw_batch("mixed", False)
    data = prepare(net, method, batch)
    assert method.end_epoch(net, data, Moment(3, 4, 4, 30)) == {}
    assert not method.codes.outputs.any()  # within a round
    method.end_epoch(net, data, Moment(9, 4, 4, 30))
    assert method.codes.outputs.abs().eq(1).all(1).tolist() == (data.labels >= 0).tolist()
    with pytest.raises(TrainingError, match="call prepare"):
        build("dish", 12)[1].step(net, batch)
    Hasher.train(digits("dish", 3), tmp_path, quiet=True)
    with safe_open(tmp_path / "last.safetensors", framework="pt") as file:
        assert file.get_tensor("method.codes.outputs").abs().eq(1).all()


def test_a_table_reads_0_for_rows_that_it_does_not_have():
    table = StoredOutputs(np.array([40, 7, 12]), 2)
    table.update(torch.tensor([12, 40]), torch.tensor([[1.0, -1.0], [2.0, 3.0]]))
    assert table.read(torch.tensor([40, 5, 12, 99, 7])).tolist() == [[2, 3], [0, 0], [1, -1], [0, 0], [0, 0]]
    assert StoredOutputs(np.empty(0, np.int64), 2).read(torch.tensor([1])).tolist() == [[0, 0]]
