"""GreedyHash: classification of the binary code itself; its gradient passes through the sign as if it were not there.

    min  l_1(W b, y) + α 1/r Σ_k ||u_k| − 1|³,     b = sgn(u), ∂b/∂u = 1

W classifies codes and has no bias. § The paper has one label per item. With several, each label of a row weighs 1/|Y|
in the softmax: one label alone, as in a public port, would lose the others.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from scdh.losses import sign_distance_loss, softmax_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import HashHead
from scdh.nets.network import Network


class GreedyhashSettings(Settings):
    corner_weight: float = Field(0.1, ge=0, description="α, weight of ||u| − 1|³, mean over bits (ImageNet: 1)")


class GreedyhashHead(HashHead):
    """The hash layer, and the classifier W [C, r] that reads codes."""

    def __init__(self, width: int, bits: int, num_classes: int) -> None:
        super().__init__(width, bits)
        self.classifier = nn.Linear(bits, num_classes, bias=False)


class Greedyhash(Method):
    about = About(
        title="GreedyHash",
        kind="unary",
        year=2018,
        reference="Su et al., Greedy Hash: Towards Fast Optimization for Accurate Hash Coding in CNN, NeurIPS 2018",
        cost="O(B·C·r)",
        fidelity="faithful",
        differs="several labels share a softmax, the paper has one label per item",
        use_when="you want a simple unary baseline that trains on real bits",
    )
    Settings = GreedyhashSettings
    settings: GreedyhashSettings
    tuned_settings = {"corner_weight": (0.01, 0.1, 1.0), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012
    collapse_advice = "lower method.corner_weight or train.lr_head"

    def build(self, net: Network[GreedyhashHead]) -> None:
        net.head = GreedyhashHead(net.width, net.bits, self.num_classes)

    def step(self, net: Network[GreedyhashHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        u = full_precision(net(batch.inputs).u)
        classification = softmax_loss(net.head.classifier(sign_straight_through(u)), batch.labels)
        corners = sign_distance_loss(u, batch.labels, p=3) / self.bits
        loss = classification + self.settings.corner_weight * corners
        return {"loss": loss, "l_1": classification, "corners": corners}


def sign_straight_through(u: Tensor) -> Tensor:
    """±1, and 1 at 0 as in codes; the gradient passes unchanged."""
    return torch.where(u >= 0, 1.0, -1.0).to(u.dtype) + (u - u.detach())
