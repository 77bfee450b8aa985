"""DPSH against plain loops, and its table of stored outputs: in one process, in two, and after a resume."""

import math

import numpy as np
import pytest
import torch
import torch.distributed as dist

from scdh.errors import TrainingError
from scdh.methods.base import Moment
from scdh.nets.stored import StoredOutputs
from tests.methods.harness import build, draw_batch, prepare
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import corners, dot, labelled_rows, mean, share_a_label, sigmoid

TWIN_SETTINGS = {"batch_epochs": 0}
TRAINING = {"train.epochs": 25}  # the first ten compare a batch with itself


def slow_pairs(us, ys, table, table_ys, seen):
    """−log likelihood of the pair labels, mean over (labelled row, labelled row of the table that was seen)."""
    values = []
    for u, y in labelled_rows(us, ys):
        for v, other, was_seen in zip(table, table_ys, seen, strict=True):
            if was_seen and label_set(other):
                theta = dot(u, v) / 2
                likelihood = sigmoid(theta if share_a_label(y, other) else -theta)
                values.append(-math.log(likelihood))
    return mean(values)


def slow_loss(net, method, batch, moment):
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    table, table_ys = method.stored.outputs.tolist(), method.stored_labels.tolist()
    seen = [any(v != 0 for v in row) for row in table]
    return slow_pairs(us, ys, table, table_ys, seen) + method.settings.eta * corners(us, ys, 2)


def test_it_starts_on_batches_and_stores_only_training_rows():
    net, method = build("dpsh", 12)
    batch = draw_batch("mixed", False)
    prepare(net, method, batch)
    u = net(batch.inputs).u
    early = method.step(net, batch, Moment(9, 9, 10))["pairs"].item()
    us, ys = u.tolist(), batch.labels.tolist()
    assert early == pytest.approx(slow_pairs(us, ys, us, ys, [True] * len(us)))
    assert method.step(net, batch, Moment(10))["pairs"].item() != pytest.approx(early)
    torch.testing.assert_close(method.stored.outputs[:-3], u.detach()[:-1].flip(0))
    assert method.stored.seen.tolist() == [True] * (len(u) - 1) + [True, False, True]
    _, fresh = build("dpsh", 12)
    with pytest.raises(TrainingError, match="call prepare"):
        fresh.step(net, batch)


def test_a_table_keeps_the_last_output_of_each_row():
    table = StoredOutputs(np.array([40, 7, 12]), 2)
    table.update(torch.tensor([12, 5, 40, 99]), torch.arange(8).reshape(4, 2).half() + 1)
    assert table.outputs.tolist() == [[5, 6], [0, 0], [1, 2]]
    assert table.seen.tolist() == [True, False, True]
    table.update(torch.tensor([7]), torch.tensor([[9.0, 9.0]], requires_grad=True))
    assert table.outputs[1].tolist() == [9, 9]
    assert not table.outputs.requires_grad
    assert list(table.state_dict()) == ["outputs"]
    StoredOutputs(np.empty(0, np.int64), 2).update(torch.tensor([1]), torch.ones(1, 2))


def test_processes_with_batches_of_unequal_length_store_the_rows_of_all(monkeypatch):
    gathered = [torch.tensor([1]), torch.tensor([12, 0]), torch.tensor([1]), torch.tensor([[7.0, 7.0], [0.0, 0.0]])]
    from_other_process = iter(gathered)

    def all_gather(parts, values):
        parts[0].copy_(values)
        parts[1].copy_(next(from_other_process))

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_gather", all_gather)
    table = StoredOutputs(np.array([0, 40, 7, 12]), 2)
    table.update(torch.tensor([40, 7]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert table.outputs.tolist() == [[0, 0], [1, 2], [3, 4], [7, 7]]
