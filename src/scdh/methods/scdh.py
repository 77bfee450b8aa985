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
from scdh.data.loaders import Batch
from scdh.losses import quantization_loss, scul, scul_hinge, softmax_loss
from scdh.methods.base import About, Method
from scdh.nets.heads import centres, linear_head
from scdh.nets.network import Network


class ScdhSettings(Settings):
    """Defaults are the paper's for CIFAR-10; NUS-WIDE: λ .001, μ .1, α 1; ImageNet: λ .001, μ .1, α 4 and warm-up."""

    lam: float = Field(0.005, ge=0, description="λ, weight of the distance to the own centres")
    mu: float = Field(0.2, ge=0, description="μ, weight of the classification loss on fc8")
    alpha: float = Field(0.05, ge=0, description="α, weight of the quantisation loss; good when l_q ends in 0.1–0.2")
    p: float = Field(3.0, gt=1, description="norm of the quantisation loss")
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
    )
    Settings = ScdhSettings
    settings: ScdhSettings

    def build(self, net: Network) -> None:
        net.fc8 = linear_head(net.width, self.num_classes)
        net.centres = nn.Parameter(centres(self.num_classes, self.bits, self.settings.centre_std))
        if self.settings.warm_up_epochs:
            self.after_step(net, epoch=0)

    def step(self, net: Network, batch: Batch) -> dict[str, Tensor]:
        s, out = self.settings, net(batch.inputs)
        assert net.centres is not None  # build() put it there
        assert out.logits is not None
        if s.form == "hinge":
            cluster = scul_hinge(out.u, batch.labels, net.centres, s.lam, s.margin)
        else:
            cluster = scul(out.u, batch.labels, net.centres, s.lam)
        classification = softmax_loss(out.logits, batch.labels)
        quantisation = quantization_loss(out.u, s.p)
        loss = cluster + s.mu * classification + s.alpha * quantisation
        return {"loss": loss, "scul": cluster, "l_1": classification, "l_q": quantisation}

    @torch.no_grad()
    def after_step(self, net: Network, epoch: int) -> None:
        if epoch < self.settings.warm_up_epochs and net.centres is not None:
            norms = net.centres.norm(dim=1, keepdim=True).clamp(min=1e-12)
            net.centres.mul_(self.settings.warm_up_norm / norms)

    def end_epoch(self, net: Network, epoch: int) -> dict[str, float]:
        return {"centre_norm": float(net.centres.detach().norm(dim=1).mean())} if net.centres is not None else {}
