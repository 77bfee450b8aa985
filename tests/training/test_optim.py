"""AdamW in one pass, for large networks on a CPU: as the usual one up to rounding, and resumed as it was begun; and
how the learning rate rises and falls.
"""

import pytest
import torch

from scdh.config import load_config
from scdh.model.hasher import Hasher
from scdh.training import optim
from scdh.training.optim import build_optimiser, rate_factor
from tests.methods.harness import digits
from tests.training.settled import train

OVERRIDES = {"train.optimiser": "adamw", "train.weight_decay": 0.01, "train.lr_head": 0.01}


def stepped(count: int) -> tuple[bool, list[torch.Tensor]]:
    """Whether the optimiser works in one pass, and the weights after some steps with random gradients."""
    torch.manual_seed(0)
    config = load_config(preset="demo-digits", overrides=OVERRIDES)
    hasher = Hasher.build(config, list("abc"), False, 64)
    optimiser = build_optimiser(hasher.network, hasher.method, config.train)
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for _ in range(count):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimiser.step()
    return bool(optimiser.defaults["fused"]), [p.detach().clone() for p in parameters]


def test_one_pass_moves_weights_as_the_usual_passes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    is_one_pass, usual = stepped(20)
    assert not is_one_pass  # a small network
    monkeypatch.setattr(optim, "ONE_PASS_WEIGHTS", 1)
    is_one_pass, found = stepped(20)
    assert is_one_pass
    for one, other in zip(found, usual, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (10**9, 1)])
def test_a_run_goes_on_as_it_began(tmp_path, monkeypatch: pytest.MonkeyPatch, first: int, second: int) -> None:
    """Bit by bit, also where the optimiser was begun by a version that knew no other."""
    short, whole = (digits("scdh", epochs, **OVERRIDES, **{"train.schedule": "constant"}) for epochs in (1, 2))
    monkeypatch.setattr(optim, "ONE_PASS_WEIGHTS", first)
    expected = train(whole, tmp_path / "whole", quiet=True)
    train(short, tmp_path / "parts", quiet=True)
    monkeypatch.setattr(optim, "ONE_PASS_WEIGHTS", second)
    found = train(whole, tmp_path / "parts", resume=True, quiet=True)
    for name, tensor in expected.network.state_dict().items():
        assert torch.equal(found.network.state_dict()[name], tensor), name


@pytest.mark.parametrize(("epochs", "warm_up", "rises_for"), [(20, 2.0, 2), (4, 2.0, 1), (1, 2.0, 0.25), (20, 0.0, 0)])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_the_rate_rises_for_at_most_a_quarter_of_the_run(epochs, warm_up, rises_for, schedule):
    overrides = {"train.epochs": epochs, "train.lr_warm_up": warm_up, "train.schedule": schedule}
    settings, steps = load_config(overrides=overrides).train, 8
    factors = [rate_factor(step, steps, settings) for step in range(epochs * steps)]
    rising = round(rises_for * steps)
    assert factors[:rising] == pytest.approx([(n + 1) / rising for n in range(rising)])
    assert factors[rising] == pytest.approx(1.0)
    falls = [after < before for before, after in zip(factors[rising:], factors[rising + 1 :], strict=False)]
    assert all(falls) if schedule == "cosine" else not any(falls)
