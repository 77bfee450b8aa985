"""OrthoHash: one loss, the cosine of outputs to fixed binary target codes that are orthogonal to each other.

    min  1/|Y| Σ_{s∈Y} −log softmax_s( a (cos(u, t_j) − m [j∈Y]) )

t_j ∈ {−1, 1}^r is the target of class j, drawn once with the run's seed and saved with its checkpoints. u comes from a
hash layer with batch-norm, which balances bits. A large cosine to a binary code also means a small quantization error,
so there is no other term. With several labels each weighs 1/|Y|.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor

from scdh.losses import cosine_margin_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.hash_centres import hash_centres, random_codes
from scdh.nets.heads import NormalisedHead
from scdh.nets.network import Network
from scdh.nets.unallocated import is_unallocated


class OrthohashSettings(Settings):
    """Defaults are those of the authors' release; m is 0.3 for CIFAR-10 there."""

    scale: float = Field(8.0, gt=0, description="a, scale of the cosines (also in use: √bits)")
    margin: float = Field(0.2, ge=0, lt=2, description="m, taken from the cosines of own labels (0.2 … 0.4)")
    targets: Literal["random", "far"] = Field(
        "random", description="random: each bit by a coin, nearly orthogonal; far: as far apart as CSQ's centres"
    )


class Orthohash(Method):
    about = About(
        title="OrthoHash",
        kind="fixed centres",
        year=2021,
        reference="Hoe et al., One Loss for All: Deep Hashing with a Single Cosine Similarity, NeurIPS 2021",
        cost="O(B·C·r)",
        fidelity="faithful",
        differs="on embeddings targets=far is used if neither a preset nor a file of settings is given: targets as "
        "far apart as CSQ's centres, where the release draws random ±1 codes",
        use_when="classes are fixed and there is no time to weigh terms of a loss",
    )
    Settings = OrthohashSettings
    settings: OrthohashSettings
    tuned_settings = {"scale": (4.0, 8.0, 16.0), "margin": (0.1, 0.2, 0.3)}  # noqa: RUF012
    # Validation MAP of digits: 12 bits 0.855 → 0.876, 32 bits 0.908 → 0.905.
    suited_settings = {"embeddings": {"targets": "far"}}  # noqa: RUF012
    targets: Tensor

    def build(self, net: Network[NormalisedHead]) -> None:
        net.head = NormalisedHead(net.width, net.bits)
        if is_unallocated():  # a model that is loaded: only training compares with the targets
            return
        draw = random_codes if self.settings.targets == "random" else hash_centres
        self.register_buffer("targets", draw(self.num_classes, net.bits))

    def step(self, net: Network[NormalisedHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s = self.settings
        return {"loss": cosine_margin_loss(net(batch.inputs).u, batch.labels, self.targets, s.scale, s.margin)}
