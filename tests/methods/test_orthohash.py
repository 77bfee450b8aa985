"""OrthoHash against plain loops, and its batch-norm."""

import pytest
import torch

from scdh.nets.heads import NormalisedHead
from tests.methods.harness import build, draw_batch, has_label, select_rows
from tests.reference.slow_losses import label_set, softmax_loss
from tests.reference.slow_methods import cosine

SCALE_FREE = True
ALL_ROW_PARTS = {"loss"}  # the means and deviations of batch-norm are those of all rows


def slow_loss(net, method, batch, moment):
    s, us, ys = method.settings, net(batch.inputs).u.tolist(), batch.labels.tolist()
    scores = [
        [s.scale * (cosine(u, t) - s.margin * (j in label_set(y))) for j, t in enumerate(method.targets.tolist())]
        for u, y in zip(us, ys, strict=True)
    ]
    return softmax_loss(scores, ys)


@pytest.mark.parametrize("multi_label", [False, True])
def test_rows_without_a_label_count_in_batch_norm_only(multi_label):
    net, method = build("orthohash", 13, multi_label)
    net.eval()
    batch = draw_batch("mixed", multi_label)
    labelled = select_rows(batch, has_label(batch))
    values = [method.step(net, rows)["loss"].item() for rows in (batch, labelled)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    unlabelled = select_rows(batch, ~has_label(batch))
    assert method.step(net, unlabelled)["loss"].item() == 0


def test_batch_norm_balances_bits_and_takes_one_row():
    torch.manual_seed(0)
    head = NormalisedHead(6, 8)
    x = torch.randn(50, 6) + 3
    u = head(x)
    torch.testing.assert_close(u.mean(0), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(u.std(0, correction=0), torch.ones(8), atol=0.05, rtol=0)
    before = head.hash_layer[1].running_mean.clone()
    one = head(x[:1])
    assert torch.equal(head.hash_layer[1].running_mean, before)
    torch.testing.assert_close(one, head.eval()(x[:1]))
