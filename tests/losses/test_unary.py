"""The unary losses and their bounds against slow twins and the paper's gradients, and degenerate inputs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh import losses
from scdh.errors import ConfigError, DataError
from tests.reference import slow_losses as slow

BITS = [1, 12, 13, 64, 128]


def draw(seed, batch=6, bits=12, classes=4):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(batch, bits, generator=generator, dtype=torch.float64)
    centres = torch.randn(classes, bits, generator=generator, dtype=torch.float64)
    single = torch.randint(-1, classes, (batch,), generator=generator)
    many = (torch.rand(batch, classes, generator=generator) < 0.4).long()
    return u, centres, single, many


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("many", [False, True])
def test_losses_equal_their_slow_twins(bits, many):
    for seed in range(5):
        u, centres, single, multi = draw(seed, bits=bits)
        y = multi if many else single
        us, ys, cs = u.tolist(), y.tolist(), centres.tolist()
        assert losses.scul(u, y, centres, 0.3).item() == pytest.approx(slow.scul(us, ys, cs, 0.3))
        hinge = losses.scul_hinge(u, y, centres, 0.3, 1.5).item()
        assert hinge == pytest.approx(slow.scul_hinge(us, ys, cs, 0.3, 1.5))
        own = losses.scul_own(u, y, centres, 0.3).item()
        assert own == pytest.approx(slow.scul_own(us, ys, cs, 0.3))
        logits = u @ centres.T
        assert losses.own_softmax_loss(logits, y).item() == pytest.approx(slow.own_softmax_loss(logits.tolist(), ys))
        assert losses.softmax_loss(logits, y).item() == pytest.approx(slow.softmax_loss(logits.tolist(), ys))
        assert losses.quantization_loss(u, 3.0).item() == pytest.approx(slow.quantization(us, 3.0), abs=1e-12)


def test_one_label_gives_the_same_number_either_way():
    u, centres, _, _ = draw(3)
    y = torch.arange(6) % 4
    hot = torch.nn.functional.one_hot(y, 4)
    for loss in (lambda y: losses.scul(u, y, centres, 0.01), lambda y: losses.scul_hinge(u, y, centres, 0.01, 1.0)):
        assert loss(y).item() == loss(hot).item()
    own = losses.scul_own(u, y, centres, 0.01).item()
    assert own == losses.scul(u, y, centres, 0.01).item()
    assert own == pytest.approx(losses.scul_own(u, hot, centres, 0.01).item(), rel=1e-12)


def test_own_labels_do_not_compete():
    centres = torch.tensor([[1.0, 1], [1, -1], [-9, -9]], dtype=torch.float64, requires_grad=True)
    u = torch.tensor([[1.0, 0]], dtype=torch.float64, requires_grad=True)
    both, everything = torch.tensor([[1, 1, 0]]), torch.tensor([[1, 1, 1]])
    assert losses.scul(u, both, centres, 0.0).item() > 0.69  # log 2: no u makes both likelier than each other
    assert losses.scul_own(u, both, centres, 0.0).item() < 1e-4
    value = losses.scul_own(u, everything, centres, 0.0)
    value.backward()
    assert value.item() == 0
    assert not u.grad.any()
    assert not centres.grad.any()


def test_own_labels_need_no_tensor_of_all_pairs_of_labels():
    rows, classes = 6, 40
    scores = torch.randn(rows, classes, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        losses.own_softmax_loss(scores, (torch.rand(rows, classes) < 0.5).int()).backward()
    assert max(kept) <= rows * classes


@pytest.mark.parametrize("bits", BITS)
def test_autograd_agrees_with_the_papers_gradients(bits):
    u, centres, _, _ = draw(1, batch=1, bits=bits)
    u.requires_grad_()
    centres.requires_grad_()
    losses.scul(u, torch.tensor([2]), centres, 0.05).backward()
    grad_u, grad_c = slow.scul_gradients(u[0].tolist(), 2, centres.tolist(), 0.05)
    np.testing.assert_allclose(u.grad[0].numpy(), grad_u, atol=1e-12)
    np.testing.assert_allclose(centres.grad.numpy(), grad_c, atol=1e-12)


@pytest.mark.parametrize("loss", ["scul", "hinge", "own", "own softmax", "quantization", "consistency", "softmax"])
def test_gradients_by_finite_differences(loss):
    u, centres, _, many = draw(7)
    many[0, 0] = 1
    many[1] = 1
    u.requires_grad_()
    centres.requires_grad_()
    functions = {
        "scul": lambda u, c: losses.scul(u, many, c, 0.2),
        "hinge": lambda u, c: losses.scul_hinge(u, many, c, 0.2, 1.0),
        "own": lambda u, c: losses.scul_own(u, many, c, 0.2),
        "own softmax": lambda u, c: losses.own_softmax_loss(u @ c.T, many),
        "quantization": lambda u, c: losses.quantization_loss(u) + 0 * c.sum(),
        "consistency": lambda u, c: losses.consistency_loss(u @ c.T, torch.ones(6, 4)),
        "softmax": lambda u, c: losses.softmax_loss(u @ c.T, many),
    }
    assert torch.autograd.gradcheck(functions[loss], (u, centres))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", ["zero", "coinciding", "far", "tiny", "unlabelled", "empty"])
def test_corner_vectors_stay_finite(case, dtype):
    centres = torch.randn(5, 16)
    u = torch.randn(4, 16)
    y = torch.tensor([0, 1, 2, 3])
    if case == "zero":
        u, centres = torch.zeros(4, 16), torch.zeros(5, 16)
    if case == "coinciding":
        u = centres[:4].clone()
    if case == "far":
        u = u * 1e25
    if case == "tiny":
        u, centres = u * 1e-25, centres * 1e-25
    if case == "unlabelled":
        y = torch.full((4,), -1)
    if case == "empty":
        u, y = u[:0], y[:0]
    u = u.to(dtype).requires_grad_()
    centres.requires_grad_()
    value = losses.scul(u, y, centres, 0.01) + losses.scul_hinge(u, y, centres, 0.01) + losses.quantization_loss(u)
    value = value + losses.softmax_loss(u @ centres.to(dtype).T, y)
    hot = (y.unsqueeze(1) == torch.arange(5)) | (y == 2).unsqueeze(1)  # one row has all labels
    value = value + losses.scul_own(u, y, centres, 0.01) + losses.scul_own(u, hot.int(), centres, 0.01)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(u.grad).all()
    assert torch.isfinite(centres.grad).all()
    if case in ("unlabelled", "empty"):
        assert losses.scul(u, y, centres, 0.01).item() == 0


def test_under_autocast_the_losses_are_computed_in_float32():
    u, centres = torch.randn(8, 32), torch.randn(6, 32)
    y = torch.randint(6, (8,))
    plain = losses.scul(u, y, centres, 0.01) + losses.quantization_loss(u)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = losses.scul(u, y, centres, 0.01) + losses.quantization_loss(u)
    assert cast.dtype == torch.float32
    assert cast.item() == plain.item()


def test_the_module_learns_its_centres_and_can_be_warmed_up():
    torch.manual_seed(0)
    loss = losses.SemanticClusterUnaryLoss(10, 48)
    assert [tuple(p.shape) for p in loss.parameters()] == [(10, 48)]
    assert loss.centres.std().item() == pytest.approx(0.5, rel=0.1)
    loss.put_centres_on_sphere(8.0)
    np.testing.assert_allclose(loss.centres.norm(dim=1).detach().numpy(), 8.0, rtol=1e-5)
    loss(torch.randn(4, 48), torch.tensor([0, 3, 9, -1])).backward()
    assert loss.centres.grad.abs().sum() > 0


def test_one_label_a_row_needs_no_matrix_of_labels():
    u, y = torch.randn(4, 8, requires_grad=True), torch.tensor([2, -1, 0, 2])
    centres = torch.randn(5, 8, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        (losses.scul(u, y, centres, 0.005) + losses.softmax_loss(u, y)).backward()
    assert not [x.shape for x in kept if x.dtype == torch.bool and x.ndim == 2]


def test_wrong_labels_are_rejected_in_one_sentence():
    u, centres = torch.randn(2, 4), torch.randn(3, 4)
    with pytest.raises(DataError, match="Label 3 is out of range; labels must be 0…2"):
        losses.scul(u, torch.tensor([0, 3]), centres, 0.1)
    with pytest.raises(DataError, match="5 columns but there are 3"):
        losses.scul(u, torch.zeros(2, 5), centres, 0.1)
    with pytest.raises(DataError, match="whole numbers"):
        losses.scul(u, torch.tensor([0.0, 1.0]), centres, 0.1)
    with pytest.raises(ConfigError, match="Unknown triplet kernel"):
        losses.triplet_ranking_loss(u, torch.tensor([0, 1]), g="cube")
    with pytest.raises(ConfigError, match="Unknown form"):
        losses.SemanticClusterUnaryLoss(3, 4, form="hing")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 4), st.sampled_from(["hinge", "softmax"]))
def test_unary_bound_is_above_the_triplet_loss_on_balanced_data(seed, classes, per_class, g):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(classes), per_class))
    h = rng.normal(size=(len(y), 6)) * rng.uniform(0.1, 3)
    centres = rng.normal(size=(classes, 6)) * rng.uniform(0.1, 3)
    triplet = losses.triplet_ranking_loss(h, y, g=g, margin=1.0)
    bound = losses.unary_upper_bound(h, y, centres, g=g, margin=1.0)
    kernel = {"hinge": slow.g_hinge, "softmax": slow.g_softmax}[g]
    assert triplet == pytest.approx(slow.triplet(h.tolist(), y.tolist(), kernel, 1.0))
    assert bound == pytest.approx(slow.upper_bound(h.tolist(), y.tolist(), centres.tolist(), kernel, 1.0))
    assert bound >= triplet - 1e-9


@pytest.mark.parametrize("p", [0.15, 0.4])
def test_proposition_1_holds_on_average(p):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 8))
    triplets, bounds = [], []
    for _ in range(60):
        y = (rng.random((14, 6)) < p).astype(int)
        h = y @ centres + rng.normal(size=(14, 8)) * 0.5
        triplets.append(losses.triplet_ranking_loss(h, y))
        bounds.append(losses.multilabel_upper_bound(h, y, centres, p=p))
    assert min(triplets) > 0
    assert np.mean(bounds) >= np.mean(triplets)


def test_multilabel_bound_equals_its_slow_twin():
    rng = np.random.default_rng(1)
    y = (rng.random((9, 5)) < 0.4).astype(int)
    h, centres = rng.normal(size=(9, 7)), rng.normal(size=(5, 7))
    fast = losses.multilabel_upper_bound(h, y, centres, p=0.4)
    expected = slow.multilabel_upper_bound(h.tolist(), y.tolist(), centres.tolist(), 0.4, slow.g_hinge, 1.0)
    assert fast == pytest.approx(expected)
    assert losses.triplet_ranking_loss(h, y) == pytest.approx(slow.triplet(h.tolist(), y.tolist(), slow.g_hinge, 1.0))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("form", ["softmax", "hinge", "own"])
def test_the_mean_over_prefixes_equals_the_slow_twin(bits, form):
    u, _, _, y = draw(bits, bits=bits)
    lengths = sorted({1, (bits + 1) // 2, bits})
    module = losses.SemanticClusterUnaryLoss(4, bits, lam=0.1, form=form).double()
    slow_loss = {"softmax": slow.scul, "own": slow.scul_own, "hinge": lambda *rest: slow.scul_hinge(*rest, 1.0)}[form]
    parts = [slow_loss(u[:, :b].tolist(), y.tolist(), module.centres[:, :b].tolist(), 0.1) for b in lengths]
    assert module(u, y, lengths).item() == pytest.approx(sum(parts) / len(parts), rel=1e-9)
    assert module(u, y, [bits]) == module(u, y)
