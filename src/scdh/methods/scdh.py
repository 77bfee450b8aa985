"""SCDH: Semantic Cluster Deep Hashing (paper, "Semantic Cluster Deep Hashing").

    min  SCUL(u, y; C, λ) + μ l_1(fc8, y) + α l_q(u)
    SCUL = −log softmax_y(−d) + λ d_y,   d_j = ‖u − c_j‖;     l_q = 1 − Σ_k |u_k| / (‖1‖_q ‖u‖_p),   1/p + 1/q = 1

c_j, the centre of class j, is learned with the network: items move to their own centre and away from the others, so a
step costs as much as one of a classifier. l_1, on the class scores fc8, speeds up convergence. l_q pulls all |u_k| to
one size, so that signs lose little. With many classes the first epochs keep every centre at norm s ("warm-up"),
otherwise u and C shrink to 0 together.

With several labels per item the paper's softmax lets own labels compete with each other. ``form="own"`` does not:
l_c = 1/|Y| Σ_{s∈Y} −log[ e^{−d_s} / (e^{−d_s} + Σ_{t∉Y} e^{−d_t}) ], the same for one label.

Two settings are for very many classes (docs/many_classes.md; not from the paper). ``sampled=1000`` computes SCUL with
the centres of the batch's classes and of 1,000 drawn ones, which stand for all others; with μ = 0 there is no fc8.
``start="classes"`` begins with the directions in which classes differ as hash layer, and with the class means of u as
centres.

``nested=[12, 24]`` makes the first 12 and the first 24 bits good codes as well (not from the paper). With P these
lengths and r, and v_{:b} the first b numbers of v:

    min  1/|P| Σ_{b∈P} [ SCUL(u_{:b}, y; C_{:b}, λ) + α l_q(u_{:b}) ] + μ l_1(fc8, y)
"""

from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from scdh.errors import ConfigError
from scdh.label_arrays import is_labelled
from scdh.losses import SemanticClusterUnaryLoss, quantization_loss, softmax_loss
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.class_directions import class_directions
from scdh.nets.heads import HashHead, linear_head
from scdh.nets.network import Network
from scdh.nets.unallocated import is_unallocated


class ScdhSettings(Settings):
    """Defaults are the paper's for CIFAR-10; NUS-WIDE: λ .001, μ .1, α 1; ImageNet: λ .001, μ .1, α 4 and warm-up."""

    lam: float = Field(0.005, ge=0, description="λ, weight of the distance to the own centres")
    mu: float = Field(0.2, ge=0, description="μ, weight of the classification loss on fc8")
    alpha: float = Field(0.05, ge=0, description="α, weight of the quantization loss; good when l_q ends in 0.1–0.2")
    p: float = Field(3.0, gt=1, description="norm of the quantization loss")
    form: Literal["softmax", "hinge", "own"] = Field(
        "softmax", description="form of the cluster loss l_c; own: labels of one item do not compete (not the paper's)"
    )
    margin: float = Field(1.0, ge=0, description="margin of the hinge form")
    centre_std: float = Field(0.5, gt=0, description="centres start from N(0, this)")
    nested: list[Annotated[int, Field(ge=1)]] = Field(
        [], description="numbers of first bits that are to be good codes too; empty: only the whole code is"
    )
    sampled: int | None = Field(
        None, ge=1, description="classes drawn at each step, whose centres stand for all; none: all"
    )
    start: Literal["random", "classes"] = Field(
        "random", description="first hash layer and centres: random (the paper's), or from the classes of the data"
    )
    warm_up_epochs: int = Field(0, ge=0, description="first epochs in which every centre keeps its norm")
    warm_up_norm: float = Field(8.0, gt=0, description="s, that norm (paper: 8 in the text, 4 best in the ablation)")


# Good with the optimiser and schedule that training.defaults chooses for these kinds of data. λ and μ for many labels
# are the paper's for NUS-WIDE, the norm of the warm-up is the best of its ablation. For
# labels that do not compete see docs/defaults.md.
SUITED_SETTINGS: dict[str, dict[str, Any]] = {
    "embeddings": {"alpha": 0.5},
    "frozen images": {"alpha": 0.3},
    "tuned images": {"alpha": 1.0},  # see docs/defaults.md
    "many labels": {"lam": 0.001, "mu": 0.1},
    "labels that combine": {"form": "own"},
    "many classes": {"warm_up_epochs": 3, "warm_up_norm": 4.0},
    "very many classes": {"sampled": 1000, "mu": 0.0, "start": "classes", "warm_up_epochs": 0},
}
COLLAPSE_ADVICE = "set method.warm_up_epochs=5 with method.warm_up_norm=8, or lower train.lr_head or method.lam"


class ScdhHead(HashHead):
    """The hash layer, fc8 (the classifier of l_1) and SCUL with its centres [C, r]."""

    no_weight_decay = frozenset({"scul.centres"})  # decay would pull them to 0, which the warm-up prevents

    def __init__(self, width: int, bits: int, num_classes: int, settings: ScdhSettings) -> None:
        super().__init__(width, bits)
        if settings.nested and max(settings.nested) > bits:
            raise ConfigError(f"method.nested must be at most method.bits, {bits}, not {max(settings.nested)}.")
        if settings.sampled is not None and settings.form != "softmax":
            raise ConfigError(f"method.form={settings.form} needs all centres; set method.sampled=none.")
        self.lengths = sorted({*settings.nested, bits})  # P; the last is r
        # With sampled centres and μ = 0 nothing with C rows but the centres themselves is made.
        self.fc8 = linear_head(width, num_classes) if settings.sampled is None or settings.mu else nn.Identity()
        self.row_parameters = frozenset() if settings.sampled is None else frozenset({"scul.centres"})
        self.scul = SemanticClusterUnaryLoss(
            num_classes,
            bits,
            settings.lam,
            form=settings.form,
            margin=settings.margin,
            centre_std=settings.centre_std,
            sampled=settings.sampled,
        )

    @property
    def centres(self) -> Tensor:
        return self.scul.centres


class Scdh(Method):
    about = About(
        title="SCDH",
        kind="unary",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019",
        cost="O(B·C·r)",
        fidelity="faithful",
        differs="with several labels l_1 has the weight 1/|Y| of the cluster loss, where the paper writes a sum; for "
        "labels that combine freely form=own is chosen without a preset, form=softmax is the paper's",
        use_when="rows have labels: the first choice",
    )
    Settings = ScdhSettings
    settings: ScdhSettings
    tuned_settings = {"alpha": (0.05, 0.3, 1.0), "mu": (0.05, 0.2, 1.0)}  # noqa: RUF012
    suited_settings = SUITED_SETTINGS
    collapse_advice = COLLAPSE_ADVICE

    def build(self, net: Network[ScdhHead]) -> None:
        build_head(self.settings, net, self.num_classes, self.multi_label)

    def prepare(self, net: Network[ScdhHead], data: MethodData) -> None:
        start_head(self.settings, net, data)

    def step(self, net: Network[ScdhHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        outputs = net(batch.inputs)
        return objective(self.settings, net.head, outputs.u, net.head.fc8(outputs.hidden), batch.labels)

    def after_step(self, net: Network[ScdhHead], moment: Moment) -> None:
        warm_up(self.settings, net.head, moment.epoch)

    def end_epoch(self, net: Network[ScdhHead], data: MethodData, moment: Moment) -> dict[str, float]:
        return centre_norm(net.head)

    def centres(self, net: Network[ScdhHead]) -> Tensor:
        return net.head.centres


def build_head(settings: ScdhSettings, net: Network[ScdhHead], num_classes: int, multi_label: bool) -> None:
    """SCDH's head; a run with a warm-up starts with centres of its norm."""
    if multi_label and (settings.sampled is not None or settings.start == "classes"):
        raise ConfigError("method.sampled and method.start=classes need one label per row, but rows have several.")
    net.head = ScdhHead(net.width, net.bits, num_classes, settings)
    if not is_unallocated():
        warm_up(settings, net.head, epoch=0)


def objective(settings: ScdhSettings, head: ScdhHead, u: Tensor, logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """SCDH's losses of one pass; rows without a label count in l_q only."""
    cluster = head.scul(u, labels, head.lengths)
    classification = softmax_loss(logits, labels) if isinstance(head.fc8, nn.Linear) else u.new_zeros(())
    quantization = quantization_loss(u, settings.p, head.lengths)
    loss = cluster + settings.mu * classification + settings.alpha * quantization
    return {"loss": loss, "scul": cluster, "l_1": classification, "l_q": quantization}


@torch.no_grad()
def start_head(settings: ScdhSettings, net: Network[ScdhHead], data: MethodData) -> None:
    """``start=classes``: hash layer and centres from the classes of the training rows; a centre without rows stays
    random."""
    if settings.start != "classes":
        return
    rows = np.flatnonzero(is_labelled(data.labels))
    labels, rng = data.labels[rows], np.random.default_rng(torch.initial_seed())
    weights, bias = map(torch.from_numpy, class_directions(data.hidden(net)[rows], labels, net.bits, rng))
    net.head.hash_layer.load_state_dict({"weight": weights.T, "bias": bias})
    centres, classes = net.head.centres, torch.from_numpy(labels).to(net.device)
    u = torch.from_numpy(data.u(net)[rows]).to(net.device)
    sums = torch.zeros_like(centres).index_add_(0, classes, u)
    counts = torch.bincount(classes, minlength=len(centres)).unsqueeze(1)
    centres.copy_(torch.where(counts > 0, sums / counts.clamp(min=1), centres))


def centre_norm(head: ScdhHead) -> dict[str, float]:
    """Mean norm of the centres, for the log."""
    return {"centre_norm": float(head.centres.detach().norm(dim=1).mean())}


def warm_up(settings: ScdhSettings, head: ScdhHead, epoch: int) -> None:
    """Scale every centre back to norm s in the first epochs."""
    if epoch < settings.warm_up_epochs:
        head.scul.put_centres_on_sphere(settings.warm_up_norm)
