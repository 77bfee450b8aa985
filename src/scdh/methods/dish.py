"""DISH: Discrete Hashing, the network and the codes of the training rows learn in turn, in rounds.

    min  ‖r S − H H^T‖² + μ Σ_ik log(1 + e^{−h_ik u_ik}),     S = 2 Y Y^T − 1, H ∈ {−1, 1}^{n×r}
    round 0   l(classifier(u), y) + a l(fc8, y) + q ½ Σ_k max(0, 1 − 2|u_k|)²
    later     l(fc8, y) + w ½ Σ_k max(0, 1 − h_k u_k)²

l is softmax cross-entropy; fc8 reads what the hash layer reads. Between rounds H = sgn(u) of all training rows, then
each bit is improved once (``nets.discrete.factorise``). Round 0 and three later ones take 5, 4, 3 and 3 of 15 parts of
the epochs, as the release's iterations with VGG-16. § The release starts every round with a rate of its own, 1/(2t + 1)
of the first; here one schedule covers the run. § For several labels S counts the labels in common.
"""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import dropout

from scdh.errors import TrainingError
from scdh.losses import softmax_loss
from scdh.losses.label_masks import has_label, label_mask
from scdh.losses.quantization import margin_loss
from scdh.losses.target_codes import bit_hinge_loss
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.discrete import factorise
from scdh.nets.heads import HashHead, linear_head
from scdh.nets.network import Network
from scdh.nets.stored import StoredOutputs

PARTS, ROUND_STARTS = 15, (5, 9, 12)  # parts of the epochs, and after how many of them a round begins


class DishSettings(Settings):
    """Defaults are those of the author's release for CIFAR-10 with VGG-16."""

    feature_weight: float = Field(0.1, ge=0, description="a, weight of the classification by fc8 in round 0")
    margin_weight: float = Field(0.1, ge=0, description="q, weight of max(0, 1 − 2|u|)² in round 0")
    hinge_weight: float = Field(0.02, ge=0, description="w, weight of the hinge to the codes in later rounds")
    fit: float = Field(1e-4, ge=0, description="μ/n, weight of the fit of the codes to the outputs")
    code_dropout: float = Field(0.2, ge=0, lt=1, description="of u before the classifier of round 0 (small nets: 0.5)")


class DishHead(HashHead):
    """The hash layer, fc8, and the classifier on u."""

    def __init__(self, width: int, bits: int, num_classes: int) -> None:
        super().__init__(width, bits)
        self.fc8 = linear_head(width, num_classes)
        self.classifier = linear_head(bits, num_classes)


class Dish(Method):
    about = About(
        title="DISH",
        kind="pairwise",
        year=2018,
        reference="Zhang et al., Scalable Discrete Supervised Multimedia Hash Learning with Clustering, TCSVT 2018",
        cost="O(B·C·(r + d)), d the width below the head; O(n·r·(r + C)) between rounds",
        fidelity="variant",
        differs="rounds share one learning-rate schedule; the weight decay of the hash layer is that of the others, in "
        "the release 50 to 250 times as much",
        use_when="codes of all training rows should be solved for together",
    )
    Settings = DishSettings
    settings: DishSettings
    tuned_settings = {"hinge_weight": (0.02, 0.1, 0.5), "margin_weight": (0.02, 0.1, 0.5)}  # noqa: RUF012
    codes: StoredOutputs

    def build(self, net: Network[DishHead]) -> None:
        net.head = DishHead(net.width, net.bits, self.num_classes)

    def prepare(self, net: Network[DishHead], data: MethodData) -> None:
        self.codes = StoredOutputs(data.rows, net.bits)

    def step(self, net: Network[DishHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        if not hasattr(self, "codes"):
            raise TrainingError("DISH keeps a code for each training row; call prepare(net, data) before step.")
        s = self.settings
        y = batch.labels
        outputs = net(batch.inputs)
        on_features = softmax_loss(net.head.fc8(outputs.hidden), y)
        on_codes = softmax_loss(net.head.classifier(dropout(outputs.u, s.code_dropout, training=net.training)), y)
        if round_of(moment.epoch, moment.epochs) == 0:
            bits = margin_loss(outputs.u, y)
            loss = on_codes + s.feature_weight * on_features + s.margin_weight * bits
        else:
            bits = bit_hinge_loss(outputs.u, self.codes.read(batch.rows).to(outputs.u.dtype))
            # Several processes need a gradient of every parameter; that of the first round's classifier is 0 now.
            loss = on_features + s.hinge_weight * bits + 0 * on_codes
        return {"loss": loss, "l_features": on_features, "l_codes": on_codes, "bits": bits}

    def end_epoch(self, net: Network[DishHead], data: MethodData, moment: Moment) -> dict[str, float]:
        if round_of(moment.epoch + 1, moment.epochs) == round_of(moment.epoch, moment.epochs):
            return {}
        u, labels = torch.from_numpy(data.u(net)).double(), torch.from_numpy(data.labels)
        labelled = has_label(labels)
        u, y = u[labelled], label_mask(labels[labelled], self.num_classes).double()
        codes = torch.zeros(len(labels), net.bits, dtype=torch.float64)
        codes[labelled] = factorise(torch.where(u >= 0, 1.0, -1.0).double(), y, u, self.settings.fit * len(u))
        self.codes.outputs.copy_(codes)
        return {}


def round_of(epoch: int, epochs: int) -> int:
    """The round, from 0 to 3, that an epoch belongs to; the epoch after the last belongs to the last."""
    return sum(PARTS * min(epoch, epochs - 1) >= start * epochs for start in ROUND_STARTS)
