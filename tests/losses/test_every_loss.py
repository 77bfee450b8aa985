"""Every loss: against plain loops, by finite differences, at extreme values, without rows; and some numbers by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh import losses
from scdh.errors import ConfigError, DataError
from scdh.losses.label_masks import similar
from scdh.losses.pairwise import cosine_pair_loss
from scdh.losses.quantization import inside_box_loss, log_cosh_loss, margin_loss
from scdh.losses.target_codes import bit_hinge_loss, bit_likelihood_loss
from scdh.losses.triplet import triplet_likelihood_loss
from tests.methods.test_dhn import slow_log_cosh
from tests.methods.test_dhn import slow_pairs as slow_batch_likelihood
from tests.methods.test_dpsh import slow_pairs as slow_stored_likelihood
from tests.methods.test_dqn import slow_pairs as slow_cosine
from tests.methods.test_drlih import slow_ranking
from tests.methods.test_dsh import slow_pairs as slow_contrastive
from tests.methods.test_dtsh import slow_triplets as slow_triplet_likelihood
from tests.methods.test_ninh import slow_triplets
from tests.reference.slow_methods import batch_likelihood, labelled_rows, mean

ROWS, CLASSES = 8, 5
Y = torch.tensor([0, 1, 0, -1, 1, 4, 2, -1])
MET = torch.rand(ROWS, ROWS, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randint(-1, 2, (ROWS, 4), generator=torch.Generator().manual_seed(3)).float()


def fixed(u, rows=ROWS):
    """Targets or stored outputs as wide as u."""
    return torch.ones(rows, u.shape[1])


def stored(y):
    """Labels of two stored rows, in the form of y."""
    y = torch.as_tensor(y)
    return torch.arange(2) if y.ndim == 1 else torch.eye(2, y.shape[1], dtype=y.dtype)


# Of outputs u [B, r] and labels y; the losses of both kinds below also compare with centres or scores x.
OF_OUTPUTS = {
    "batch likelihood": lambda u, y, x: losses.batch_likelihood_loss(u, y, with_itself=True),
    "balanced likelihood": lambda u, y, x: losses.batch_likelihood_loss(u, y, 0.3, balanced=True),
    "stored likelihood": lambda u, y, x: losses.pair_likelihood_loss(u, y, fixed(u, 2), stored(y)),
    "similar pairs": lambda u, y, x: losses.similar_pair_loss(u, y, fixed(u, 2), stored(y)),
    "contrastive": lambda u, y, x: losses.contrastive_loss(u, y, 8.0),
    "cosine pairs": lambda u, y, x: cosine_pair_loss(u, y),
    "cauchy pairs": lambda u, y, x: losses.cauchy_pair_loss(u, y, 2.0),
    "cauchy corners": lambda u, y, x: losses.cauchy_corner_loss(u, y, 2.0),
    "log cosh": lambda u, y, x: log_cosh_loss(u, y),
    "box": lambda u, y, x: inside_box_loss(u, y),
    "margin": lambda u, y, x: margin_loss(u, y),
    "corners": lambda u, y, x: losses.sign_distance_loss(u, y, 1) + losses.sign_distance_loss(u, y, 2),
    "cubic corners": lambda u, y, x: losses.sign_distance_loss(u, y, 3),
    "triplet likelihood": lambda u, y, x: triplet_likelihood_loss(u, y, 3.0),
    "triplet hinge": lambda u, y, x: losses.triplet_hinge_loss(u, y, 2.0),
    "plain triplet hinge": lambda u, y, x: losses.triplet_hinge_loss(u, y, 1.0, squared=False),
    "undecided bits": lambda u, y, x: losses.undecided_bits_loss(u, y),
    "unbalanced bits": lambda u, y, x: losses.unbalanced_bits_loss(u, y),
    "central similarity": lambda u, y, x: losses.central_similarity_loss(u, y, fixed(u, len(u))),
    "polarization": lambda u, y, x: losses.polarization_loss(u, y, fixed(u, CLASSES), 0.5),
}
OF_CENTRES = {
    "inner product": losses.inner_product_loss,
    "centre": losses.centre_loss,
    "cosine margin": lambda u, y, x: losses.cosine_margin_loss(u, y, x, 4.0, 0.3),
    "target likelihood": lambda u, y, x: losses.target_likelihood_loss(u, y, x, 4.0),
}
OF_SCORES = {
    "squared hinge": lambda u, y, x: losses.squared_hinge_loss(x, y),
    "squared sigmoid": lambda u, y, x: losses.squared_sigmoid_loss(x, y),
}
LABELLED = OF_OUTPUTS | OF_CENTRES | OF_SCORES
UNLABELLED = {
    "neighbours": lambda u, y, x: losses.neighbour_loss(u, 2, (5, 7), 3.0),
    "pseudo labels": lambda u, y, x: losses.pseudo_label_loss(u, x, y, 3.0),
    "graph": lambda u, y, x: losses.graph_context_loss(u, x[:, :4], MET[: len(u), : len(x)], Y[: len(u)] < 1),
    "bit likelihood": lambda u, y, x: bit_likelihood_loss(u, TARGETS[: len(u)]),
    "bit hinge": lambda u, y, x: bit_hinge_loss(u, TARGETS[: len(u)]),
}
LOSSES = LABELLED | UNLABELLED


def draw(name, size=1.0, dtype=torch.float64, rows=ROWS):
    """Outputs, and centres or scores."""
    generator = torch.Generator().manual_seed(2)
    shapes = (rows, 4), (CLASSES, 4) if name in OF_CENTRES else (rows, CLASSES)
    return [(size * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype) for shape in shapes]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([1, 12, 13]), st.booleans(), st.floats(0, 30))
def test_losses_of_any_batch_equal_their_twins_in_any_order(seed, rows, bits, multi_label, margin):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(rows, bits, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 3, (rows,), generator=generator)
    if multi_label:
        y = (torch.rand(rows, 4, generator=generator) < 0.3).to(torch.uint8)
    us, ys = u.tolist(), y.tolist()
    labelled, pairs = labelled_rows(us, ys), batch_likelihood(us, ys, 0.3)
    twins = {
        "contrastive": slow_contrastive(us, ys, margin),
        "contrastive, balanced": slow_contrastive(us, ys, margin, balanced=True),
        "stored": slow_stored_likelihood(us, ys, us, ys, [True] * rows),
        "triplets": slow_triplets(us, ys, margin),
        "plain triplets": slow_ranking(us, ys, 1.0),
        "triplet likelihood": slow_triplet_likelihood(us, ys, 3.0),
        "pairs": mean([x for values in pairs for x in values]),
        "pairs, balanced": sum(mean(values) for values in pairs) / 2,
        "pairs, with itself": slow_batch_likelihood(us, ys),
        "cosine": slow_cosine(us, ys),
        "log cosh": slow_log_cosh(us, ys),
        "box": mean([sum(1 - x * x for x in row) for row, _ in labelled]),
        "margin": mean([sum(max(0.0, 1 - 2 * abs(x)) ** 2 / 2 for x in row) for row, _ in labelled]),
    }
    order = torch.randperm(rows, generator=generator)
    for v, labels in ((u, y), (u[order], y[order])):
        found = {
            "contrastive": losses.contrastive_loss(v, labels, margin),
            "contrastive, balanced": losses.contrastive_loss(v, labels, margin, balanced=True),
            "stored": losses.pair_likelihood_loss(v, labels, v, labels),
            "triplets": losses.triplet_hinge_loss(v, labels, margin),
            "plain triplets": losses.triplet_hinge_loss(v, labels, 1.0, squared=False),
            "triplet likelihood": triplet_likelihood_loss(v, labels, 3.0),
            "pairs": losses.batch_likelihood_loss(v, labels, 0.3),
            "pairs, balanced": losses.batch_likelihood_loss(v, labels, 0.3, balanced=True),
            "pairs, with itself": losses.batch_likelihood_loss(v, labels, with_itself=True),
            "cosine": cosine_pair_loss(v, labels),
            "log cosh": log_cosh_loss(v, labels),
            "box": inside_box_loss(v, labels),
            "margin": margin_loss(v, labels),
        }
        assert {name: x.item() for name, x in found.items()} == pytest.approx(twins, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_finite_differences(name):
    u, x = draw(name)
    inputs = (u.requires_grad_(), x if name == "pseudo labels" else x.requires_grad_())  # scores get no gradient there
    assert LOSSES[name](u, Y, x).item() != 0
    assert torch.autograd.gradcheck(lambda u, x: LOSSES[name](u, Y, x) + 0 * (u.sum() + x.sum()), inputs)


@pytest.mark.parametrize("name", LOSSES)
def test_zero_and_huge_outputs_stay_finite(name):
    for dtype in (torch.float32, torch.bfloat16):
        for size in (0.0, 1e-25, 1e-20, 1e8, 1e8 if name == "cubic corners" else 1e15):
            for y in (Y, torch.full((ROWS,), -1), torch.zeros(ROWS, CLASSES, dtype=torch.uint8)):
                u, x = (tensor.requires_grad_() for tensor in draw(name, size, dtype))
                value = LOSSES[name](u, y, x)
                (value + 0 * (u.float().sum() + x.float().sum())).backward()
                assert value.dtype == torch.float32
                assert torch.isfinite(value)
                assert torch.isfinite(u.grad).all()
                assert torch.isfinite(x.grad).all()
                if name in LABELLED and not (y > 0).any():
                    assert value.item() == 0
                    assert not u.grad.any()


@pytest.mark.parametrize("name", LOSSES)
def test_an_empty_batch_has_no_loss(name):
    u, x = draw(name, rows=0)
    assert LOSSES[name](u, torch.zeros(0, dtype=torch.int64), x).item() == 0


@pytest.mark.parametrize("name", OF_OUTPUTS)
def test_wrong_arguments_are_one_sentence(name):
    with pytest.raises(DataError, match="There are 3 labels for 2 rows"):
        OF_OUTPUTS[name](torch.zeros(2, 4), [0, 1, 1], None)
    with pytest.raises(DataError, match="must be a float tensor"):
        OF_OUTPUTS[name](torch.zeros(2, 4, dtype=torch.int64), [0, 1], None)


@pytest.mark.parametrize("loss", [bit_hinge_loss, bit_likelihood_loss])
def test_targets_of_another_width_are_rejected(loss):
    with pytest.raises(DataError, match=r"u has shape \[2, 4\], but targets has shape \[2, 3\]\.$"):
        loss(torch.zeros(2, 4), torch.zeros(2, 3))


def test_rows_outside_the_graph_do_not_count():
    u, x = draw("graph")
    met, known = x.softmax(1), torch.tensor([True, False] * 4)
    w = torch.randn(5, 4, dtype=torch.float64)
    alone = losses.graph_context_loss(u[known], w, met[known], torch.ones(4, dtype=torch.bool))
    assert losses.graph_context_loss(u, w, met, known).item() == pytest.approx(alone.item())


def test_losses_of_targets_by_hand():
    u = torch.tensor([[0.5, -2.0, 3.0], [1.0, 1.0, 1.0]])
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert bit_hinge_loss(u, targets).item() == pytest.approx((0.5**2 + 3**2) / 2)
    expected = math.log(1 + math.exp(-0.5)) + math.log(1 + math.exp(2))
    assert bit_likelihood_loss(u, targets).item() == pytest.approx(expected)


def test_a_likelihood_near_1_keeps_the_digits_of_the_rest():
    """−log(1 − p) of a wrong class with p ≈ 1 is about the difference of the scores, where 1 − p rounds to 0."""
    targets = torch.tensor([[1.0, 0], [-1, 0]])
    u = torch.tensor([[1.0, 0]], requires_grad=True)
    value = losses.target_likelihood_loss(u, torch.tensor([1]), targets, 20.0)
    value.backward()
    assert value.item() == pytest.approx(40, rel=1e-6)  # both classes: 40 for −log p₁, 40 for −log(1 − p₀), mean
    assert torch.isfinite(u.grad).all()
    assert losses.target_likelihood_loss(u, torch.tensor([0]), targets, 20.0).item() == pytest.approx(0, abs=1e-6)
    assert losses.target_likelihood_loss(u, torch.tensor([0]), targets[:1], 20.0).item() == 0


def test_quantization_loss_is_zero_only_for_equal_magnitudes_and_scale_free():
    signs, u = torch.randn(5, 20).sign(), torch.randn(5, 20)
    assert losses.quantization_loss(signs * 7).item() == pytest.approx(0, abs=1e-6)
    assert losses.quantization_loss(u).item() > 0.01
    assert losses.quantization_loss(u * 1e6).item() == pytest.approx(losses.quantization_loss(u).item(), rel=1e-5)
    with pytest.raises(ConfigError, match="p > 1"):
        losses.quantization_loss(u, p=1.0)


def test_consistency_gives_no_gradient_to_the_teacher():
    student, teacher = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    value = losses.consistency_loss(student, teacher)
    value.backward()
    assert value.item() == pytest.approx(((student.softmax(1) - teacher.softmax(1)) ** 2).sum().item() / 12)
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0


def test_similar_rows_share_a_label():
    y = torch.tensor([0, 1, -1, 0])
    assert similar(y, y).int().tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    hot = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=torch.uint8)
    assert similar(hot, hot).int().tolist() == [[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    with pytest.raises(DataError, match="cannot be compared"):
        similar(y, hot)
