"""Wrong arguments of the losses: one sentence each; labels may come as arrays and lists."""

import numpy as np
import pytest
import torch

from scdh import losses
from scdh.errors import DataError

ROWS, BITS, CLASSES = 6, 8, 4
torch.manual_seed(0)
U, CENTRES = torch.randn(ROWS, BITS), torch.randn(CLASSES, BITS)
Y = torch.tensor([0, 1, 2, 3, 1, -1])
HOT = torch.nn.functional.one_hot(Y.clamp(min=0), CLASSES)
MODULE, HINGE, OWN = (losses.SemanticClusterUnaryLoss(CLASSES, BITS, form=form) for form in ("softmax", "hinge", "own"))

# Losses of outputs and labels; those above the line compare outputs with centres, targets or earlier outputs.
WITH_CENTRES = {
    "module": MODULE,
    "module, hinge": HINGE,
    "module, own": OWN,
    "scul": lambda u, y: losses.scul(u, y, CENTRES, 0.1),
    "scul_hinge": lambda u, y: losses.scul_hinge(u, y, CENTRES, 0.1),
    "scul_own": lambda u, y: losses.scul_own(u, y, CENTRES, 0.1),
    "inner_product_loss": lambda u, y: losses.inner_product_loss(u, y, CENTRES),
    "centre_loss": lambda u, y: losses.centre_loss(u, y, CENTRES),
    "central_similarity_loss": lambda u, y: losses.central_similarity_loss(u, y, U.sign()),
    "pair_likelihood_loss": lambda u, y: losses.pair_likelihood_loss(u, y, U, Y if np.ndim(y) == 1 else HOT),
    "cosine_margin_loss": lambda u, y: losses.cosine_margin_loss(u, y, CENTRES, 8.0, 0.2),
    "target_likelihood_loss": lambda u, y: losses.target_likelihood_loss(u, y, CENTRES, 8.0),
    "polarization_loss": lambda u, y: losses.polarization_loss(u, y, CENTRES.sign(), 1.0),
    "similar_pair_loss": lambda u, y: losses.similar_pair_loss(u, y, U, Y if np.ndim(y) == 1 else HOT),
}
TRAINED = {
    **WITH_CENTRES,
    "softmax_loss": losses.softmax_loss,
    "cauchy_pair_loss": lambda u, y: losses.cauchy_pair_loss(u, y, 20.0),
    "cauchy_corner_loss": lambda u, y: losses.cauchy_corner_loss(u, y, 20.0),
    "batch_likelihood_loss": lambda u, y: losses.batch_likelihood_loss(u, y, 0.1),
    "contrastive_loss": lambda u, y: losses.contrastive_loss(u, y, 2.0),
    "sign_distance_loss": lambda u, y: losses.sign_distance_loss(u, y, 2),
    "triplet_hinge_loss": lambda u, y: losses.triplet_hinge_loss(u, y, 1.0),
}
BOUNDS = {
    "triplet_ranking_loss": losses.triplet_ranking_loss,
    "unary_upper_bound": lambda h, y: losses.unary_upper_bound(h, y, CENTRES),
    "multilabel_upper_bound": lambda h, y: losses.multilabel_upper_bound(h, y, CENTRES),
}
ALL = {**TRAINED, **BOUNDS}


def rejected(words: str, call, *arguments) -> None:
    with pytest.raises(DataError, match=words) as error:
        call(*arguments)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("loss", ALL)
def test_labels_may_be_arrays_and_lists(loss: str) -> None:
    call = ALL[loss]
    u = torch.randn(ROWS, CLASSES) if loss == "softmax_loss" else U
    for y in (Y, HOT):
        with torch.no_grad():
            values = [float(call(u, labels)) for labels in (y, y.numpy(), y.tolist(), y.int())]
        assert len(set(values)) == 1


@pytest.mark.parametrize("loss", ALL)
def test_wrong_labels(loss: str) -> None:
    call = ALL[loss]
    u = torch.randn(ROWS, CLASSES) if loss == "softmax_loss" else U
    for y in (Y[:4], Y[:1], HOT[:3], Y.repeat(2), Y.numpy()[:5]):
        rejected(f"There are {len(y)} labels for 6 rows", call, u, y)
    for y in (Y.float(), Y.numpy() / 2, Y > 0, Y[0], HOT[None]):
        rejected(r"Labels must be whole numbers \[B\] or multi-hot \[B, C\], not torch", call, u, y)
    rejected(r"multi-hot \[B, C\], not \['cat'.*… \(list\)", call, u, ["cat", "dog"] * 10)
    rejected(r"multi-hot \[B, C\], not None", call, u, None)


@pytest.mark.parametrize("loss", ["module", "module, hinge", "scul", "centre_loss", "unary_upper_bound"])
def test_labels_without_a_centre(loss: str) -> None:
    rejected("Label 4 is out of range; labels must be 0…3", ALL[loss], U, Y + 1)
    rejected("Label -2 is out of range", ALL[loss], U, Y - 1)
    rejected("5 columns but there are 4 centres", ALL[loss], U, torch.zeros(ROWS, 5))


@pytest.mark.parametrize("loss", TRAINED)
def test_wrong_outputs(loss: str) -> None:
    call = TRAINED[loss]
    rejected("must be a torch tensor", call, U.numpy(), Y)
    rejected("must be a torch tensor", call, U.tolist(), Y)
    rejected(r"must be a float tensor .*, not torch.int64 of shape \[6, 8\]", call, U.long(), Y)
    rejected(r"must be a float tensor .* of shape \[8\]", call, U[0], Y)
    rejected(r"must be a float tensor .* of shape \[1, 6, 8\]", call, U[None], Y)


@pytest.mark.parametrize("loss", [*WITH_CENTRES, "unary_upper_bound", "multilabel_upper_bound"])
def test_outputs_of_another_width(loss: str) -> None:
    rejected("9 columns, but the .* 8; both are the number of bits|9.* 8", ALL[loss], torch.randn(ROWS, 9), Y)


@pytest.mark.parametrize("loss", WITH_CENTRES)
def test_outputs_on_another_device(loss: str) -> None:
    rejected("u is on meta, but .* on cpu; move one", WITH_CENTRES[loss], U.to("meta"), Y)


@pytest.mark.parametrize("loss", ["module", "module, hinge", "scul", "centre_loss"])
def test_outputs_of_double_precision(loss: str) -> None:
    torch.testing.assert_close(WITH_CENTRES[loss](U.double(), Y).float(), WITH_CENTRES[loss](U, Y))


def test_losses_without_labels() -> None:
    for wrong in (U.numpy(), U[0], U.long(), U[None], None):
        rejected("must be a", losses.quantization_loss, wrong)
        rejected("student must be a", losses.consistency_loss, wrong, U)
        rejected("teacher must be a", losses.consistency_loss, U, wrong)
    rejected(r"student has shape \[6, 8\], but teacher has shape \[6, 7\]", losses.consistency_loss, U, U[:, :7])
    rejected("teacher on meta", losses.consistency_loss, U, U.to("meta"))
    rejected("h must be an array of real numbers", losses.triplet_ranking_loss, [["a"]], [0])
    rejected("h must be an array of real numbers", losses.triplet_ranking_loss, None, Y)


def test_an_empty_batch() -> None:
    for call in (MODULE, HINGE, OWN, losses.triplet_ranking_loss):
        assert call(U[:0], []) == 0


def test_the_gradient_reaches_the_network() -> None:
    u = U.clone().requires_grad_()
    MODULE(u, Y.numpy()).backward()
    assert u.grad.abs().sum() > 0
