"""SSDH: Supervised Semantics-preserving Deep Hashing, a classifier that reads bits between 0 and 1.

    min  l(W h + b, y) − β/2 · 1/r ‖h − ½‖² + γ/2 (mean_k h_k − ½)²,     h = σ(u)

l is the softmax loss with one label per row, and a squared hinge for each class with several. The second term moves
bits away from ½, the third wants half of them on. All three are means over rows, as in the authors' Caffe layers,
whose loss weights of 1 are the defaults.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses import softmax_loss, squared_hinge_loss, unbalanced_bits_loss, undecided_bits_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import ClassifiedHead
from scdh.nets.network import Network


class SsdhSettings(Settings):
    """Defaults are those of the authors' release."""

    binary_weight: float = Field(1.0, ge=0, description="β, weight of the distance of bits to ½")
    balance_weight: float = Field(1.0, ge=0, description="γ, weight of as many bits on as off")
    classifier_std: float = Field(0.2, gt=0, description="the classifier starts from N(0, this)")


class Ssdh(Method):
    about = About(
        title="SSDH",
        kind="unary",
        year=2018,
        reference="Yang et al., Supervised Learning of Semantics-Preserving Hash via Deep Convolutional Neural "
        "Networks, IEEE TPAMI 2018",
        cost="O(B·C·r)",
        fidelity="faithful",
        differs="the classifier learns at the rate of the hash layer, in the release ten times as fast",
        use_when="bits should also be features that a classifier can use",
    )
    Settings = SsdhSettings
    settings: SsdhSettings
    tuned_settings = {"binary_weight": (0.1, 1.0, 10.0), "balance_weight": (0.1, 1.0, 10.0)}  # noqa: RUF012

    def build(self, net: Network[ClassifiedHead]) -> None:
        net.head = ClassifiedHead(net.width, net.bits, self.num_classes, self.settings.classifier_std)

    def step(self, net: Network[ClassifiedHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, y = self.settings, batch.labels
        h = full_precision(net(batch.inputs).u).sigmoid()  # codes are the signs of u: u ≥ 0 where h ≥ ½
        scores = net.head.classifier(h)
        classification = squared_hinge_loss(scores, y) if self.multi_label else softmax_loss(scores, y)
        binary, balance = undecided_bits_loss(h, y), unbalanced_bits_loss(h, y)
        loss = classification + s.binary_weight * binary + s.balance_weight * balance
        return {"loss": loss, "l_1": classification, "binary": binary, "balance": balance}
