"""CSQ: Central Similarity Quantization, every class has a fixed target code and items learn to hit it.

    min  BCE((tanh u + 1)/2, target_y) + λ (|tanh u| − 1)²  [ + λ₁ (log(1 + e^θ) − s θ) ],     θ = 10/r · h_i · h_j

Without the term in brackets it is the paper's loss (``form="paper"``) with the quantization term of the authors' code;
with λ = 1e-4 that term hardly counts. With it, h = tanh u, it is the default of the
authors' released code (``form="release"``: λ₁ = 0.2, λ = 0.05); the commands in their description set λ₁ = 0.

Targets are drawn once, in ``build``, with the run's seed, and are saved with its checkpoints. With 16, 32, 64 … bits (a
power of two, and at least half the number of classes) they are rows of a Hadamard matrix, drawn at random here. The
authors' files hold the first rows (``centres="first"``), where bits repeat each other if there are few classes. For any
other number of bits there is no such matrix: targets are random codes with equal numbers of ones and minus ones, and
``centres="first"`` has no effect.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from scdh.losses import batch_likelihood_loss, central_similarity_loss, sign_distance_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.hash_centres import hash_centres, voted_targets
from scdh.nets.network import Network
from scdh.nets.unallocated import is_unallocated


class CsqSettings(Settings):
    """The authors' commands have λ = 0.05 for ResNet-50 and 1e-4 or 1e-3 for AlexNet."""

    form: Literal["paper", "release"] = Field(
        "paper", description="paper: the paper's loss; release: the authors' code, which adds a pairwise term"
    )
    corner_weight: float | None = Field(
        None, ge=0, description="λ, weight of (|tanh u| − 1)², mean over bits; none: 1e-4 (paper), 0.05 (release)"
    )
    pair_weight: float = Field(0.2, ge=0, description="λ₁, weight of the pairwise term of the release")
    centres: Literal["drawn", "first"] = Field(
        "drawn",
        description="rows of the Hadamard matrix that are centres; first: the authors' files; no effect if the "
        "number of bits is not a power of two",
    )


class Csq(Method):
    about = About(
        title="CSQ",
        kind="fixed centres",
        year=2020,
        reference="Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval, CVPR 2020",
        cost="O(B·C·r)",
        fidelity="variant",
        differs="rows of the Hadamard matrix are drawn, the authors' files hold the first ones; the hash layer is one "
        "linear layer, where the release has two hidden layers as wide as the features before it (net.hidden adds such "
        "layers)",
        use_when="classes are fixed and their codes should be far apart",
    )
    Settings = CsqSettings
    settings: CsqSettings
    tuned_settings = {"corner_weight": (1e-4, 0.05, 0.5), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012
    hash_centres: Tensor
    ties: Tensor

    def build(self, net: Network) -> None:
        super().build(net)
        if is_unallocated():  # a model that is loaded: only training compares with the centres
            return
        self.register_buffer(
            "hash_centres", hash_centres(self.num_classes, net.bits, drawn=self.settings.centres == "drawn")
        )
        self.register_buffer("ties", torch.randint(0, 2, (net.bits,)) * 2.0 - 1)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s = self.settings
        u = net(batch.inputs).u
        y = batch.labels
        is_release = s.form == "release"
        default = 0.05 if is_release else 1e-4
        central = central_similarity_loss(u, y, voted_targets(y, self.hash_centres, self.ties))
        h = full_precision(u).tanh()
        corners = sign_distance_loss(h, y, p=2) / self.bits
        parts = {"central": central, "corners": corners}
        loss = central + (default if s.corner_weight is None else s.corner_weight) * corners
        if is_release:
            # § The authors pair one half of a batch with the other; all pairs of the batch have the same mean.
            parts["pairs"] = batch_likelihood_loss(h, y, 10 / self.bits)
            loss = loss + s.pair_weight * parts["pairs"]
        return {"loss": loss, **parts}
