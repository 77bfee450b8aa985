"""DPN: Deep Polarized Network, a hinge that drives each bit past a margin on the side of the class's target code.

    min  1/r Σ_{s∈Y} Σ_k max(0, m − u_k t_sk)

t_s ∈ {−1, 1}^r is the target of class s, drawn once with the run's seed and saved with its checkpoints. Bits far on the
right side of 0 need no quantization loss. § The authors sum over bits; with the mean a rate suits codes of any length.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor

from scdh.losses import polarization_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.hash_centres import hash_centres, random_codes
from scdh.nets.network import Network
from scdh.nets.unallocated import is_unallocated


class DpnSettings(Settings):
    """Defaults are those of the authors' code."""

    margin: float = Field(1.0, ge=0, description="m")
    targets: Literal["random", "far"] = Field(
        "random", description="random: each bit by a coin; far: as far apart as CSQ's centres"
    )


class Dpn(Method):
    about = About(
        title="DPN",
        kind="fixed centres",
        year=2020,
        reference="Fan et al., Deep Polarized Network for Supervised Learning of Accurate Binary Hashing Codes, IJCAI"
        " 2020",
        cost="O(B·C·r)",
        fidelity="faithful",
        differs="targets stay as drawn, as in the authors' default, where the paper can also update them; a mean over "
        "bits, not a sum",
        use_when="you want the shortest loss with fixed targets",
    )
    Settings = DpnSettings
    settings: DpnSettings
    tuned_settings = {"margin": (0.5, 1.0, 2.0), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012
    # Validation MAP of digits: 12 bits 0.857 → 0.869, 32 bits 0.906 → 0.909.
    suited_settings = {"embeddings": {"targets": "far"}}  # noqa: RUF012
    targets: Tensor

    def build(self, net: Network) -> None:
        super().build(net)
        if is_unallocated():  # a model that is loaded: only training compares with the targets
            return
        draw = random_codes if self.settings.targets == "random" else hash_centres
        self.register_buffer("targets", draw(self.num_classes, net.bits))

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        return {"loss": polarization_loss(net(batch.inputs).u, batch.labels, self.targets, self.settings.margin)}
