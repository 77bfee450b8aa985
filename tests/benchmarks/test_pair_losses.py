"""The variants that explain the order of pairwise methods change what they say, and nothing else."""

import math

import pytest
import torch

import scdh.methods.dhn as dhn
from benchmarks.pair_losses import VARIANTS, batch_loss, pairs, table_loss
from scdh.config import load_config
from scdh.losses import batch_likelihood_loss
from scdh.methods.registry import make_method


def test_a_balanced_table_weighs_similar_and_dissimilar_pairs_alike() -> None:
    torch.manual_seed(0)
    u, stored = torch.randn(4, 6), torch.randn(5, 6)
    y, stored_y = torch.tensor([0, 1, 1, -1]), torch.tensor([0, 1, 2, 2, -1])
    seen = torch.tensor([True, True, True, False, True])
    sums, counts = [0.0, 0.0], [0, 0]
    for i in range(3):
        for j in range(3):  # the fourth was not seen, the fifth has no label
            same = int(y[i] == stored_y[j])
            theta = float(u[i] @ stored[j]) / 2
            sums[same] += math.log1p(math.exp(theta)) - same * theta
            counts[same] += 1
    expected = sums[0] / counts[0] + sums[1] / counts[1]
    assert float(table_loss(u, y, stored, stored_y, seen)) == pytest.approx(expected, rel=1e-5)


def test_balance_is_put_on_and_taken_off_again() -> None:
    h, y = torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    plain = batch_likelihood_loss(h, y, with_itself=True)
    assert torch.equal(batch_loss(False)(h, y, with_itself=True), plain)
    with pairs("dhn", True):
        balanced = dhn.batch_likelihood_loss(h, y, with_itself=True)
        assert torch.equal(balanced, 2 * batch_likelihood_loss(h, y, 1.0, True, True))
    assert dhn.batch_likelihood_loss is batch_likelihood_loss


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant[0]} {variant[2]}")
def test_the_settings_of_every_variant_exist(variant: tuple) -> None:
    method, rate, _, _, settings = variant
    config = load_config(overrides={"method.name": method, "method.bits": 32, "train.lr_head": rate, **settings})
    made = make_method(method, config.method.own, 32, 14, False)  # refuses settings that the method does not have
    own = {key.removeprefix("method."): value for key, value in settings.items() if key.startswith("method.")}
    assert {key: getattr(made.settings, key) for key in own} == own
