"""DRLIH: Deep Reinforcement Learning for Image Hashing, a recurrent network gives one bit after the other.

    min  (1 − w) R + w L R̄,     R = max(0, m + ‖p_i − p_j‖ − ‖p_i − p_k‖),     L = −1/r Σ_t log max(p_t, 1 − p_t)
    h_0 = v,   h_t = tanh(W h_{t−1} + V h_{t−1} + b),   p_t = σ(u_t),   u_t = w^T h_t + c

v is what the head reads, (i, j) share a label and (i, k) do not, and R̄ is the value of R without its gradient. This is
the authors' release, which differs from their paper: actions are the likelier ones and not drawn, there are no action
groups and no reward for each step. So it is triplet learning through a recurrent network, and a small term that makes
bits surer of themselves. § All triplets of a batch count where the release draws some, and L is over all labelled rows,
each of which is an anchor.

Triplets are formed within a process's share of the batch: with several processes there are fewer of them.
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear, softplus

from scdh.losses import triplet_hinge_loss
from scdh.losses.label_masks import has_label, mean_over_labelled
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import Head
from scdh.nets.network import Network


class DrlihSettings(Settings):
    """Defaults are those of the authors' release."""

    margin: float = Field(1.0, ge=0, description="m, on Euclidean distances of the probabilities p")
    policy_weight: float = Field(0.001, ge=0, le=1, description="w, weight of the policy's term")


class DrlihHead(Head):
    """A recurrent cell that reads its own state, and one unit that gives u_t at every step."""

    def __init__(self, width: int, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.cell = nn.RNNCell(width, width)
        nn.init.zeros_(self.cell.bias_ih)
        nn.init.zeros_(self.cell.bias_hh)
        self.policy = nn.Linear(width, 1)
        nn.init.normal_(self.policy.weight, std=0.01 / width**0.5)  # about the norm of the release, 0.01
        nn.init.zeros_(self.policy.bias)

    def forward(self, x: Tensor) -> Tensor:
        # The cell's input is its state, so both of its products are one: W h + V h = (W + V) h.
        weight, bias = self.cell.weight_ih + self.cell.weight_hh, self.cell.bias_ih + self.cell.bias_hh
        states = []
        for _ in range(self.bits):
            x = linear(x, weight, bias).tanh()
            states.append(x)
        return self.policy(torch.stack(states, 1)).squeeze(2)


class Drlih(Method):
    about = About(
        title="DRLIH",
        kind="triplet",
        year=2020,
        reference="Peng et al., Deep Reinforcement Learning for Image Hashing, IEEE TMM 2020",
        cost="O(B²·(r + log B) + B·r·d²), d the width below the head",
        fidelity="variant",
        differs="the authors' release, not their paper: no drawn actions, no action groups, no reward per step; all "
        "triplets of a batch count; it reads hidden units after ReLU and dropout, the release a layer without them",
        use_when="a comparison should include bits that are computed one after the other; slower than all others",
    )
    Settings = DrlihSettings
    settings: DrlihSettings
    tuned_settings = {"margin": (0.5, 1.0, 2.0), "policy_weight": (0.0, 0.001, 0.1)}  # noqa: RUF012

    def build(self, net: Network[DrlihHead]) -> None:
        net.head = DrlihHead(net.width, net.bits)

    def step(self, net: Network[DrlihHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        u = full_precision(net(batch.inputs).u)
        ranking = triplet_hinge_loss(u.sigmoid(), batch.labels, self.settings.margin, squared=False)
        surprise = softplus(-u.abs()).mean(1)  # −log of the likelier action's probability, σ(|u|)
        policy = mean_over_labelled(surprise, has_label(batch.labels)) * ranking.detach()
        weight = self.settings.policy_weight
        return {"loss": (1 - weight) * ranking + weight * policy, "ranking": ranking, "policy": policy}
