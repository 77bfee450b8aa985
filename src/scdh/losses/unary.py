"""The Semantic Cluster Unary Loss, SCUL (paper, "Unary Upper Bound and Semantic Cluster Unary Loss").

Symbols: u_i = F(x_i) ∈ R^r, centres c_j ∈ R^r, d_ij = |u_i − c_j|, p_ij = softmax_j(−d_ij), Y_i the labels of item i.

    one label     l_c(u_i, y_i) + λ d_{i,y_i},                         l_c = −log p_{i,y_i}
    many labels   q(|Y_i|) Σ_{s∈Y_i} −log p_is + λ Σ_{s∈Y_i} d_is,      q(x) = 1/x

Gradients (paper, "Optimization"), checked against autograd in the tests:

    ∇c_y = (1 − p_y + λ) ∇d_y      ∇c_j = −p_j ∇d_j      ∇u = (1 + λ) ∇d_y − Σ_j p_j ∇d_j
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, softplus

from scdh.errors import ConfigError, DataError, unknown_name
from scdh.losses.label_masks import check_range, has_label, label_mask, labels_of, mean_over_labelled, sum_over_labels
from scdh.losses.outputs import euclidean_distances, full_precision, outputs, outputs_as_wide_as, prefix_distances
from scdh.losses.sampled import sample_classes

FORMS = ("softmax", "hinge", "own")  # forms of the cluster loss


def softmax_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Softmax cross-entropy, many labels: 1/|Y| Σ_{s∈Y} −log softmax_s(scores); mean over the labelled rows.

    This is l_1 on the fc8 outputs. § The paper's l_1 for many labels is a plain sum; it is weighted by 1/|Y| here too,
    so that μ means the same with one label and with many.

    Args:
        scores: float tensor [B, C], before the softmax.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(scores, "scores"))
    with torch.autocast(scores.device.type, enabled=False):
        scores = full_precision(scores)
        return mean_over_labelled(_mean_log_loss(scores, y), has_label(y))


def own_softmax_loss(scores: Tensor, y: Tensor) -> Tensor:
    """1/|Y| Σ_{s∈Y} −log[ e^{x_s} / (e^{x_s} + Σ_{t∉Y} e^{x_t}) ]: own labels do not compete; mean over labelled rows.

    The softmax over all classes wants each own label to be likelier than the other own labels, too, and can never reach
    0 if there are several. With one label per row both are the same. Time and memory are O(B·C): each term is
    log(1 + e^{L − x_s}) with one L = log Σ_{t∉Y} e^{x_t} per row; if all labels are own it is 0.

    Args:
        scores: float tensor [B, C], before the softmax.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].

    Returns:
        float tensor [], 0 where no row has a label.
    """
    y = labels_of(y, outputs(scores, "scores"))
    with torch.autocast(scores.device.type, enabled=False):
        return mean_over_labelled(_own_label_losses(full_precision(scores), y), has_label(y))


def scul(u: Tensor, y: Tensor, centres: Tensor, lam: float) -> Tensor:
    """1/|Y| Σ_{s∈Y} −log p_s + λ Σ_{s∈Y} d_s, p = softmax(−d), d_j = |u − c_j|; mean over the labelled rows.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        centres: float tensor [C, r], semantic cluster centres c.
        lam: λ, the weight of the distance to the centres of Y.

    Returns:
        float tensor [], 0 where no row has a label.

    Raises:
        DataError: ``y`` has another shape or type, or a label that no centre belongs to.
    """
    y = labels_of(y, outputs_as_wide_as(u, centres, "centres"))
    return _scul(euclidean_distances(u, centres), y, lam)


def scul_own(u: Tensor, y: Tensor, centres: Tensor, lam: float) -> Tensor:
    """1/|Y| Σ_{s∈Y} −log[ e^{−d_s} / (e^{−d_s} + Σ_{t∉Y} e^{−d_t}) ] + λ Σ_{s∈Y} d_s; mean over the labelled rows.

    As :func:`scul`, but own labels do not compete with each other (:func:`own_softmax_loss`). Not from the paper; with
    one label per row it is :func:`scul`.

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        centres: float tensor [C, r], semantic cluster centres c.
        lam: λ, the weight of the distance to the centres of Y.

    Returns:
        float tensor [], 0 where no row has a label.

    Raises:
        DataError: ``y`` has another shape or type, or a label that no centre belongs to.
    """
    y = labels_of(y, outputs_as_wide_as(u, centres, "centres"))
    return _scul_own(euclidean_distances(u, centres), y, lam)


def scul_hinge(u: Tensor, y: Tensor, centres: Tensor, lam: float, margin: float = 1.0) -> Tensor:
    """SCUL with the paper's other l_c, the multi-class hinge; mean over the labelled rows.

    one label    l_c + λ d_iy,  l_c = 1/(C−1) Σ_{l≠y} max(0, m + d_iy − d_il)
    many labels  q(|Y|) l_mc + λ Σ_{s∈Y} d_is,  l_mc = 1/(C−|Y|) Σ_{s∈Y} Σ_{t∉Y} max(0, m + d_is − d_it)   (Prop. 1)

    Args:
        u: float tensor [B, r], outputs of the hash layer.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        centres: float tensor [C, r], semantic cluster centres c.
        lam: λ, the weight of the distance to the centres of Y.
        margin: m.

    Returns:
        float tensor [], 0 where no row has a label.

    Raises:
        DataError: ``y`` has another shape or type, or a label that no centre belongs to.
    """
    y = labels_of(y, outputs_as_wide_as(u, centres, "centres"))
    return _scul_hinge(euclidean_distances(u, centres), y, lam, margin)


def _scul(distances: Tensor, y: Tensor, lam: float) -> Tensor:
    cluster = _mean_log_loss(-distances, y)
    return mean_over_labelled(cluster + lam * sum_over_labels(distances, y), has_label(y))


def _scul_own(distances: Tensor, y: Tensor, lam: float) -> Tensor:
    cluster = _own_label_losses(-distances, y)
    return mean_over_labelled(cluster + lam * sum_over_labels(distances, y), has_label(y))


def _scul_hinge(distances: Tensor, y: Tensor, lam: float, margin: float) -> Tensor:
    mask = label_mask(y, distances.shape[1])
    wrong = (~mask).sum(1).clamp(min=1)
    cluster = torch.zeros_like(distances)
    for s in mask.any(0).nonzero().flatten().tolist():  # one label at a time, so that no tensor is larger than [B, C]
        violation = (margin + distances[:, s : s + 1] - distances).clamp(min=0)
        column = torch.where(mask, 0, violation).sum(1) / wrong
        cluster = cluster + column.unsqueeze(1) * (torch.arange(mask.shape[1], device=y.device) == s)
    value = _mean_over_labels(cluster, mask) + lam * sum_over_labels(distances, mask)
    return mean_over_labelled(value, has_label(mask))


def _mean_over_labels(values: Tensor, y: Tensor) -> Tensor:
    sums = sum_over_labels(values, y)
    return sums if y.ndim == 1 else sums / (y > 0).sum(1).clamp(min=1)


def _mean_log_loss(scores: Tensor, y: Tensor) -> Tensor:
    """1/|Y| Σ_{s∈Y} −log softmax_s(scores) of each row [B]; the sign comes last, as [B, C] numbers may be many."""
    return -_mean_over_labels(scores.log_softmax(1), y)


def _own_label_losses(scores: Tensor, y: Tensor) -> Tensor:
    """:func:`own_softmax_loss` of each row [B]."""
    if y.ndim == 1:
        return _mean_log_loss(scores, y)
    mask = label_mask(y, scores.shape[1])
    has_others = ~mask.all(1, keepdim=True)
    # A row of −inf would have a gradient of NaN; its replacement is not used.
    others = torch.where(has_others, torch.where(mask, -torch.inf, scores), 0).logsumexp(1, keepdim=True)
    return _mean_over_labels(torch.where(has_others, softplus(others - scores), 0), mask)


class SemanticClusterUnaryLoss(nn.Module):
    """l_c(u, y) + λ Σ_{s∈Y} |u − c_s| with its own learned centres c, for any training loop.

    >>> loss = SemanticClusterUnaryLoss(num_classes=10, bits=48)
    >>> value = loss(torch.randn(8, 48), torch.randint(10, (8,)))

    Give ``loss.parameters()`` to the optimiser together with the network's. With hundreds of classes call
    :meth:`put_centres_on_sphere` after every step of the first epochs (the paper's warm-up, s = 8 or 4), else outputs
    and centres may shrink to 0 together.

    Args:
        num_classes: C.
        bits: r.
        lam: λ; the paper's value for CIFAR-10 is 0.005.
        form: l_c is the "softmax" of :func:`scul`, the "hinge" of :func:`scul_hinge`, or for several labels per row the
            "own" of :func:`scul_own`.
        margin: m of the hinge.
        centre_std: standard deviation of the first centres; the paper's is 0.5.
        sampled: number of classes drawn at each step, which together with those of the batch stand for all classes
            (:mod:`scdh.losses.sampled`); None: all. It needs form "softmax" and one label per row. The gradient
            of the centres is then sparse, for an optimiser like ``torch.optim.SparseAdam``, so that the time of a step
            does not grow with C.

    Attributes:
        centres: float parameter [C, r].
    """

    def __init__(
        self,
        num_classes: int,
        bits: int,
        lam: float = 0.005,
        *,
        form: str = "softmax",
        margin: float = 1.0,
        centre_std: float = 0.5,
        sampled: int | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 1 or bits < 1:
            raise ConfigError(f"num_classes and bits must be at least 1, not {num_classes} and {bits}.")
        if form not in FORMS:
            raise ConfigError(unknown_name("form of the cluster loss", form, FORMS))
        if sampled is not None and (sampled < 1 or form != "softmax"):
            raise ConfigError(f"sampled must be at least 1 and needs form 'softmax', not {sampled} with {form!r}.")
        self.lam = lam
        self.sampled = sampled
        self.form = form
        self.margin = margin
        self.centres = nn.Parameter(torch.randn(num_classes, bits) * centre_std)

    def forward(self, u: Tensor, y: Tensor, lengths: Sequence[int] | None = None) -> Tensor:
        """The loss of a batch.

        Args:
            u: float tensor [B, r], outputs of the hash layer.
            y: int64 [B] with −1 for no label, or multi-hot [B, C]; a tensor, an array or a list.
            lengths: P numbers b; the loss is the mean over them of the loss of u_{:b} and c_{:b}, the first b numbers
                (nested codes). None: r alone.

        Returns:
            float tensor [], the mean over the labelled rows.

        Raises:
            DataError: ``u`` is not a float tensor [B, r] on the device of the centres, ``y`` does not have B rows, or a
                label has no centre.
        """
        y = labels_of(y, outputs_as_wide_as(u, self.centres, "centres"))
        lengths = [u.shape[1]] if lengths is None else lengths
        if self.sampled is not None:
            return self._sampled_loss(u, y, lengths, self.sampled)
        # The lengths are further rows: one pass over P·B rows is faster than P passes.
        distances = prefix_distances(u, self.centres, lengths).flatten(0, 1)
        y = torch.cat([y] * len(lengths))
        if self.form == "hinge":
            return _scul_hinge(distances, y, self.lam, self.margin)
        return (_scul_own if self.form == "own" else _scul)(distances, y, self.lam)

    def _sampled_loss(self, u: Tensor, y: Tensor, lengths: Sequence[int], draws: int) -> Tensor:
        if y.ndim == 2:
            raise DataError("Sampled centres need one label per row, not multi-hot labels; set sampled=None.")
        check_range(y, len(self.centres))
        classes, y, log_weights = sample_classes(y, len(self.centres), draws)
        centres = embedding(classes, self.centres, sparse=True)
        distances = prefix_distances(u, centres, lengths).flatten(0, 1) - log_weights
        return _scul(distances, torch.cat([y] * len(lengths)), self.lam)

    @torch.no_grad()
    def put_centres_on_sphere(self, norm: float) -> None:
        """Warm-up: scale every centre to ‖c‖ = s, which is ``norm``; after a step with sampled centres those alone that
        it moved."""
        gradient = self.centres.grad
        rows = gradient._indices()[0] if gradient is not None and gradient.is_sparse else slice(None)
        centres = self.centres[rows]
        self.centres[rows] = centres * (norm / centres.norm(dim=1, keepdim=True).clamp(min=1e-12))

    def extra_repr(self) -> str:
        classes, bits = self.centres.shape
        return f"num_classes={classes}, bits={bits}, lam={self.lam}, form={self.form!r}, sampled={self.sampled}"
