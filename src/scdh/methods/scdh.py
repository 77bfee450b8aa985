"""SCDH: Semantic Cluster Deep Hashing (paper, "Semantic Cluster Deep Hashing").

    min  SCUL(u, y; C, λ) + μ l_1(fc8, y) + α l_q(u)

l_1 speeds up convergence, l_q pulls u towards the corners. With many classes the first epochs keep every centre at
norm s ("warm-up"), else u and C shrink to 0 together.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from scdh.config import Settings
from scdh.data.batches.loaders import Batch
from scdh.losses import quantization_loss, scul, scul_hinge, softmax_loss
from scdh.methods.base import START, About, Method, Moment
from scdh.nets.heads import centres, linear_head
from scdh.nets.network import Network, Outputs


class ScdhSettings(Settings):
    """Defaults are the paper's for CIFAR-10; NUS-WIDE: λ .001, μ .1, α 1; ImageNet: λ .001, μ .1, α 4 and warm-up."""

    lam: float = Field(0.005, ge=0, description="λ, weight of the distance to the own centres")
    mu: float = Field(0.2, ge=0, description="μ, weight of the classification loss on fc8")
    alpha: float = Field(0.05, ge=0, description="α, weight of the quantization loss; good when l_q ends in 0.1–0.2")
    p: float = Field(3.0, gt=1, description="norm of the quantization loss")
    form: Literal["softmax", "hinge"] = Field("softmax", description="form of the cluster loss l_c")
    margin: float = Field(1.0, ge=0, description="margin of the hinge form")
    centre_std: float = Field(0.5, gt=0, description="centres start from N(0, this)")
    warm_up_epochs: int = Field(0, ge=0, description="first epochs in which every centre keeps its norm")
    warm_up_norm: float = Field(8.0, gt=0, description="s, that norm (paper: 8 in the text, 4 best in the ablation)")


class Scdh(Method):
    about = About(
        title="SCDH",
        kind="unary",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019",
        cost="O(B·C·r)",
        faithful="faithful",
    )
    Settings = ScdhSettings
    settings: ScdhSettings

    def build(self, net: Network) -> None:
        add_heads(self.settings, net, self.num_classes)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        return objective(self.settings, net, net(batch.inputs), batch.labels)

    def after_step(self, net: Network, epoch: int) -> None:
        warm_up(self.settings, net, epoch)

    def end_epoch(self, net: Network, epoch: int) -> dict[str, float]:
        return centre_norm(net)


def add_heads(settings: ScdhSettings, net: Network, num_classes: int) -> None:
    """fc8 and the centres; a warm-up starts with its norm."""
    net.fc8 = linear_head(net.width, num_classes)
    net.centres = nn.Parameter(centres(num_classes, net.bits, settings.centre_std))
    warm_up(settings, net, epoch=0)


def objective(settings: ScdhSettings, net: Network, out: Outputs, labels: Tensor) -> dict[str, Tensor]:
    """SCDH's losses of one pass; rows without a label count in l_q only."""
    s = settings
    assert net.centres is not None  # add_heads() put them there
    assert out.logits is not None
    if s.form == "hinge":
        cluster = scul_hinge(out.u, labels, net.centres, s.lam, s.margin)
    else:
        cluster = scul(out.u, labels, net.centres, s.lam)
    classification = softmax_loss(out.logits, labels)
    quantization = quantization_loss(out.u, s.p)
    loss = cluster + s.mu * classification + s.alpha * quantization
    return {"loss": loss, "scul": cluster, "l_1": classification, "l_q": quantization}


def centre_norm(net: Network) -> dict[str, float]:
    return {"centre_norm": float(net.centres.detach().norm(dim=1).mean())} if net.centres is not None else {}


@torch.no_grad()
def warm_up(settings: ScdhSettings, net: Network, epoch: int) -> None:
    """In the first epochs: every centre back to norm s."""
    if epoch < settings.warm_up_epochs and net.centres is not None:
        norms = net.centres.norm(dim=1, keepdim=True).clamp(min=1e-12)
        net.centres.mul_(settings.warm_up_norm / norms)
