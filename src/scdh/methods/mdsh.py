"""MDSH: hash centres with a minimal distance that the Gilbert–Varshamov bound asks for, and a likelihood of them.

    min  −1/C Σ_j [ s_j log p_j + (1 − s_j) log(1 − p_j) ] + β log(1 + e^{(1 − cos(h_i, v_k))/2}) + λ (|h| − 1)²

h = tanh(u), p = softmax(√r cos(h, c)), s_j = 1 iff j is a label of the item, c_j ∈ {−1, 1}^r the centre of class j. The
second term runs over stored outputs v_k of training rows that share a label with i, and starts after some epochs. u
comes from a hash layer with batch-norm. Centres are made once with the run's seed and saved with its checkpoints.
"""

import math

import torch
from pydantic import Field
from torch import Tensor

from scdh.errors import TrainingError
from scdh.losses import sign_distance_loss, similar_pair_loss, target_likelihood_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.hash_centres import separated_centres
from scdh.nets.heads import NormalisedHead
from scdh.nets.network import Network
from scdh.nets.stored import StoredOutputs
from scdh.nets.unallocated import is_unallocated


class MdshSettings(Settings):
    """Defaults are those of the authors' release."""

    pair_weight: float = Field(1.0, ge=0, description="β, weight of the pairs with stored outputs")
    corner_weight: float = Field(1e-4, ge=0, description="λ, weight of (|h| − 1)², mean over bits")
    pair_epoch: float = Field(9.0, ge=0, description="epochs after which the pairs begin to count")


class Mdsh(Method):
    about = About(
        title="MDSH",
        kind="fixed centres",
        year=2023,
        reference="Wang et al., Deep Hashing with Minimal-Distance-Separated Hash Centers, CVPR 2023",
        cost="O(B·n·(r + C))",
        fidelity="variant",
        differs="centres are found by flipping bits, not ADMM; stored outputs are the network's, not a teacher's",
        use_when="classes are many for the number of bits, or the number of bits is not a power of two",
    )
    Settings = MdshSettings
    settings: MdshSettings
    tuned_settings = {"pair_weight": (0.0, 0.1, 1.0), "corner_weight": (1e-4, 1e-2, 0.1)}  # noqa: RUF012
    hash_centres: Tensor
    stored: StoredOutputs
    stored_labels: Tensor

    def build(self, net: Network[NormalisedHead]) -> None:
        net.head = NormalisedHead(net.width, net.bits)
        if is_unallocated():  # a model that is loaded: only training compares with the centres
            return
        self.register_buffer("hash_centres", separated_centres(self.num_classes, net.bits))

    def prepare(self, net: Network[NormalisedHead], data: MethodData) -> None:
        self.stored = StoredOutputs(data.rows, net.bits)
        self.register_buffer("stored_labels", torch.tensor(data.labels), persistent=False)

    def step(self, net: Network[NormalisedHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        if not hasattr(self, "stored"):
            raise TrainingError("MDSH compares with training rows; call prepare(net, data) before step.")
        s, y = self.settings, batch.labels
        h = full_precision(net(batch.inputs).u).tanh()  # has the sign of u, so codes are read from u
        self.stored.update(batch.rows, h)
        central = target_likelihood_loss(h, y, self.hash_centres, math.sqrt(self.bits))
        corners = sign_distance_loss(h, y, p=2) / self.bits
        if moment.epochs_done < s.pair_epoch:
            pairs = torch.zeros_like(central)
        else:
            pairs = similar_pair_loss(h, y, self.stored.outputs, self.stored_labels, self.stored.seen)
        loss = central + s.pair_weight * pairs + s.corner_weight * corners
        return {"loss": loss, "central": central, "pairs": pairs, "corners": corners}
