"""HashNet: a weighted likelihood of pair labels, with codes that harden while it learns.

    min  w_ij [ log(1 + e^θ) − s_ij θ ],     θ_ij = a h_i · h_j, h = tanh(β u), β = √(1 + g t)

w_ij is |S|/|S₁| for similar and |S|/|S₀| for dissimilar pairs, so both kinds weigh the same in total; s = 1 iff i and j
share a label. t is the share of the run that is done. Pairs are formed within a process's share of the batch.

With several labels the paper also multiplies w_ij of a similar pair by the share of labels in common,
|Y_i ∩ Y_j| / |Y_i ∪ Y_j|, and the authors' Caffe code has an option with |Y_i ∩ Y_j|² / (|Y_i| |Y_j|). This factor is
left out, as in the authors' PyTorch code. The training script there gives all similar pairs one weight that the user
sets; the weights above are those of its function ``pairwise_loss_updated``.
"""

import math

from pydantic import Field
from torch import Tensor

from scdh.losses import batch_likelihood_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network

STAGES = 50  # in which β grows


class HashnetSettings(Settings):
    """Defaults are those of the authors' PyTorch code."""

    scale: float | None = Field(None, gt=0, description="a; none: 10 / bits")
    # The release has β = √(1 + 0.005 i) at iteration i, raised every 200 of 10,000 iterations: √51 at the end. As a
    # share of the run it is the same there, and runs of another length harden as far.
    growth: float = Field(50.0, ge=0, description="g: β ends at √(1 + g)")


class Hashnet(Method):
    about = About(
        title="HashNet",
        kind="pairwise",
        year=2017,
        reference="Cao et al., HashNet: Deep Learning to Hash by Continuation, ICCV 2017",
        cost="O(B²·(r + C))",
        fidelity="faithful",
        differs="with several labels the paper and an option of the authors' Caffe code also weigh a similar pair by "
        "the share of labels in common, so this is faithful to the PyTorch code only; similar and dissimilar pairs are "
        "balanced within each batch, as in one function of that code, where its training script takes a weight from "
        "the user; β follows the share of the run that is done, not the number of iterations",
        use_when="few pairs are similar, and you want a pairwise method",
    )
    Settings = HashnetSettings
    settings: HashnetSettings
    learns_from_pairs = True
    tuned_settings = {"growth": (0.0, 10.0, 50.0), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012
    collapse_advice = "lower method.growth or train.lr_head"

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        u, s = full_precision(net(batch.inputs).u), self.settings
        beta = hardness(moment.epochs_done / moment.epochs, s.growth)
        scale = 10 / self.bits if s.scale is None else s.scale
        # § |S|, |S₁| and |S₀| are those of the batch; the paper does not specify them.
        known = self.known_pairs(batch)
        pairs = 2 * batch_likelihood_loss((beta * u).tanh(), batch.labels, scale, balanced=True, pairs=known)
        return {"loss": pairs, "beta": pairs.new_tensor(beta)}


def hardness(share_done: float, growth: float) -> float:
    """β = √(1 + g t), t rounded down to stages."""
    return math.sqrt(1 + growth * math.floor(STAGES * share_done) / STAGES)
