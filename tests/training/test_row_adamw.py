"""Row updates of AdamW: as dense AdamW on the steps that touch a row; clipping, averages and resuming."""

import copy

import pytest
import torch

from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from scdh.training.row_adamw import RowAdamW, clipped_parameters
from scdh.training.teacher import MovingAverage
from tests.methods.harness import build, digits
from tests.training.settled import train

OPTIONS = {"lr": 0.1, "betas": (0.8, 0.99), "weight_decay": 0.1}
SAMPLED = {"method.sampled": 4, "method.mu": 0.0, "train.optimiser": "adamw", "train.clip_norm": 0.5, "train.ema": 0.9}


def test_a_row_moves_as_with_dense_adamw_on_the_steps_that_touch_it():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(6, 3, generator=generator)
    found = torch.nn.Parameter(start.clone())
    optimiser = RowAdamW([found], **OPTIONS)
    dense = [torch.nn.Parameter(row.clone()) for row in start]
    alone = [torch.optim.AdamW([row], **OPTIONS) for row in dense]
    for step in range(8):
        rows = torch.tensor([[0, 3], [3], [0, 1, 3], [1], [5, 0], [0], [3, 0], [0, 1, 3, 5]][step])
        values = torch.randn(len(rows), 3, generator=generator)
        found.grad = torch.sparse_coo_tensor(rows[None], values, (6, 3), check_invariants=True)
        optimiser.step()
        assert found.grad.is_sparse
        for row, value in zip(rows.tolist(), values, strict=True):
            dense[row].grad = value
            alone[row].step()
        if step == 3:  # another optimiser goes on from the saved state
            state = copy.deepcopy(optimiser.state_dict())
            optimiser = RowAdamW([found], **OPTIONS)
            optimiser.load_state_dict(state)
    torch.testing.assert_close(found.detach(), torch.stack([row.detach() for row in dense]))
    for row in (2, 4):
        assert torch.equal(found[row], start[row])
    assert optimiser.state[found]["step"].tolist() == [6, 3, 0, 5, 0, 2]


def test_dense_gradients_are_those_of_adamw():
    weights = [torch.nn.Parameter(torch.ones(4, 2)) for _ in range(2)]
    for weight, kind in zip(weights, (RowAdamW, torch.optim.AdamW), strict=True):
        optimiser = kind([weight], **OPTIONS)
        for step in range(3):
            weight.grad = torch.full((4, 2), 1.0 + step)
            optimiser.step()
    assert torch.equal(*weights)


def test_clipping_counts_rows_of_sparse_gradients():
    sparse, plain = torch.nn.Parameter(torch.zeros(9, 2)), torch.nn.Parameter(torch.zeros(2))
    rows = torch.tensor([[1, 4, 1]])
    sparse.grad = torch.sparse_coo_tensor(rows, torch.tensor([[1.0, 0], [0, 4], [2, 0]]), (9, 2))
    plain.grad = torch.tensor([12.0, 0])
    assert torch.nn.utils.clip_grad_norm_(clipped_parameters([sparse, plain]), 1.3).item() == pytest.approx(13)
    torch.testing.assert_close(sparse.grad.to_dense()[[1, 4]], torch.tensor([[0.3, 0], [0, 0.4]]))
    torch.testing.assert_close(plain.grad, torch.tensor([1.2, 0]))


def test_an_average_shares_sampled_centres():
    net, _ = build("scdh", 12, settings={"sampled": 2, "mu": 0.0})
    average = MovingAverage(net, 0.9)
    assert average.net.head.centres is net.head.centres
    assert net.head.centres.requires_grad
    assert not average.net.head.hash_layer.weight.requires_grad
    assert average.net.head.hash_layer.weight is not net.head.hash_layer.weight


def test_a_run_with_sampled_centres_resumes_bit_by_bit(tmp_path):
    short, whole = (digits("scdh", epochs, **SAMPLED, **{"train.schedule": "constant"}) for epochs in (1, 2))
    expected = train(whole, tmp_path / "whole", quiet=True)
    train(short, tmp_path / "parts", quiet=True)
    found = train(whole, tmp_path / "parts", resume=True, quiet=True)
    for name, tensor in expected.network.state_dict().items():
        assert torch.equal(found.network.state_dict()[name], tensor), name


def test_sgd_is_rejected():
    message = r"^method.sampled needs train.optimiser=adamw and a single process; or set it to none.$"
    with pytest.raises(ConfigError, match=message):
        Hasher.train(digits("scdh", 1, **{**SAMPLED, "train.optimiser": "sgd"}), quiet=True)
