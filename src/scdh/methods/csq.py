"""CSQ: Central Similarity Quantization, every class has a fixed target code and items learn to hit it.

    min  BCE((tanh u + 1)/2, target_y) + λ (|tanh u| − 1)²

Targets are drawn once, in ``build``, with the run's seed, and are saved with its checkpoints.
"""

import torch
from pydantic import Field
from torch import Tensor

from scdh.losses import central_similarity_loss, sign_distance_loss
from scdh.losses.distances import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.hash_centres import hash_centres, voted_targets
from scdh.nets.network import Network
from scdh.nets.unallocated import is_unallocated


class CsqSettings(Settings):
    corner_weight: float = Field(1e-4, ge=0, description="λ, weight of (|tanh u| − 1)², mean over bits (1e-4 … 0.05)")


class Csq(Method):
    about = About(
        title="CSQ",
        kind="fixed centres",
        year=2020,
        reference="Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval, CVPR 2020",
        cost="O(B·C·r)",
        fidelity="variant",
        differs="centres are the first rows of the Hadamard matrix, the paper's are drawn",
        use_when="classes are fixed and their codes should be far apart",
    )
    Settings = CsqSettings
    settings: CsqSettings
    tuned_settings = {"corner_weight": (1e-4, 1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)}  # noqa: RUF012
    hash_centres: Tensor
    ties: Tensor

    def build(self, net: Network) -> None:
        super().build(net)
        if is_unallocated():  # a model that is loaded: only training compares with the centres
            return
        self.register_buffer("hash_centres", hash_centres(self.num_classes, net.bits))
        self.register_buffer("ties", torch.randint(0, 2, (net.bits,)) * 2.0 - 1)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        u, y = net(batch.inputs).u, batch.labels
        central = central_similarity_loss(u, y, voted_targets(y, self.hash_centres, self.ties))
        corners = sign_distance_loss(full_precision(u).tanh(), y, p=2) / self.bits
        return {"loss": central + self.settings.corner_weight * corners, "central": central, "corners": corners}
