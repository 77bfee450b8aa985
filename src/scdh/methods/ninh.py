"""NINH (also DNNH): one slice of features for each bit, and a triplet hinge on the sigmoid of the bits.

    min  max(0, m + ‖h_i − h_j‖² − ‖h_i − h_k‖²),     h = σ(u), (i, j) share a label, (i, k) do not

The papers of the time drew some triplets at random; here all of a batch count, for their sum costs no more than the
distances do (see ``triplet_hinge_loss``). The network-in-network below is whatever backbone the run has.

Triplets are formed within a process's share of the batch: with several processes there are fewer of them.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from scdh.losses import triplet_hinge_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import HashHead
from scdh.nets.network import Network


class NinhSettings(Settings):
    margin: float = Field(2.0, ge=0, description="m; 2 at 12, 24 and 48 bits in the code that follows the authors'")
    head: Literal["divide", "plain"] = Field(
        "divide", description="divide: the paper's slices, a hidden layer more than other methods; plain: a hash layer"
    )
    slice_width: int = Field(50, ge=1, description="features that belong to one bit, where the head divides")
    # From memory of the paper, unverified, and not in the code at hand; so it is off.
    piecewise: float | None = Field(
        None, gt=0, lt=0.5, description="ε: h beyond ½ ± ε counts as 0 or 1 (unverified); none: off"
    )


class Ninh(Method):
    about = About(
        title="NINH",
        kind="triplet",
        year=2015,
        reference="Lai et al., Simultaneous Feature Learning and Hash Coding with Deep Neural Networks, CVPR 2015",
        cost="O(B²·(r + log B))",
        fidelity="variant",
        differs="any backbone below; the margin of a public port, and no piecewise threshold, as there; all triplets "
        "of a batch count",
        use_when="you want a triplet baseline",
    )
    Settings = NinhSettings
    settings: NinhSettings
    tuned_settings = {"margin": (2.0, "r/48", "r/32", "r/20", "r/14", "r/10", "r/8", "r/6", "r/4")}  # noqa: RUF012

    def build(self, net: Network) -> None:
        net.head = HashHead(net.width, net.bits)
        if self.settings.head == "plain":
            return
        net.head.hash_layer = DivideAndEncode(net.width, net.bits, self.settings.slice_width)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        # Codes are the signs of u: u ≥ 0 where h ≥ ½.
        h = full_precision(net(batch.inputs).u).sigmoid()
        if self.settings.piecewise is not None:
            h = piecewise_threshold(h, self.settings.piecewise)
        return {"loss": triplet_hinge_loss(h, batch.labels, self.settings.margin)}


class DivideAndEncode(nn.Module):
    """r slices of features, each with an output unit of its own: bits share no features above the trunk."""

    def __init__(self, width: int, bits: int, slice_width: int) -> None:
        super().__init__()
        self.divide = nn.Linear(width, bits * slice_width)
        nn.init.kaiming_normal_(self.divide.weight, nonlinearity="relu")  # § not given; keeps the slices' scale
        nn.init.zeros_(self.divide.bias)
        self.encode = nn.Parameter(torch.randn(bits, slice_width).mul_(0.1))
        self.bias = nn.Parameter(torch.zeros(bits))

    def forward(self, features: Tensor) -> Tensor:
        slices = self.divide(features).relu().unflatten(1, self.encode.shape)
        return (slices * self.encode).sum(2) + self.bias


def piecewise_threshold(h: Tensor, epsilon: float) -> Tensor:
    """0 below ½ − ε, 1 above ½ + ε, h between."""
    return torch.where(h < 0.5 - epsilon, 0, torch.where(h > 0.5 + epsilon, 1, h))
