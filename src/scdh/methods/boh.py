"""BOH: Binary Optimized Hashing, a loss on the cube [−1, 1]^r with a penalty that drives outputs to its corners.

    min  mean_ij [ log(1 + e^{θ_ij}) − s_ij θ_ij ] + μ_t mean_i Σ_k (1 − h_ik²),     h = tanh(u), θ_ij = h_i · h_j

This is a reconstruction from the paper's abstract, which states: for a Lipschitz loss the
binary problem may be relaxed to the cube, and codes are replaced by the hash outputs alone. The penalty is the one of
the exact-penalty theorem, which holds for such losses: concave, and 0 at corners only. § Which loss the paper takes is
unknown; the likelihood of pair labels is Lipschitz on the cube, and learns more surely than hinges on h_i · h_j do.
§ The weight rises in stages, as the theorem asks for a large one, and a large one from the start would keep every bit
at the sign that it has by chance.

Pairs are formed within a process's share of the batch: with several processes there are fewer of them.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses.outputs import full_precision
from scdh.losses.pairwise import batch_likelihood_loss
from scdh.losses.quantization import inside_box_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network


class BohSettings(Settings):
    """All values are ours."""

    mu: float = Field(0.1, ge=0, description="μ, weight of the penalty in the last stage, mean over rows")
    stages: int = Field(4, ge=1, description="stages of equal length, in which the weight rises from μ/stages to μ")


class Boh(Method):
    about = About(
        title="BOH",
        kind="pairwise",
        year=2016,
        reference="Dai et al., Binary Optimized Hashing, ACM Multimedia 2016",
        cost="O(B²·r)",
        fidelity="reconstruction",
        differs="made from the abstract alone: loss, penalty and settings are ours",
        use_when="a comparison should show a concave penalty in place of a quantization loss",
    )
    Settings = BohSettings
    settings: BohSettings
    tuned_settings = {"mu": (0.02, 0.1, 0.3), "stages": (1, 4, 10)}  # noqa: RUF012
    collapse_advice = "lower method.mu or train.lr_head"

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        h = full_precision(net(batch.inputs).u).tanh()  # has the sign of u, so codes are read from u
        pairs = batch_likelihood_loss(h, batch.labels, with_itself=True)
        inside = inside_box_loss(h, batch.labels)
        return {"loss": pairs + self._weight(moment) * inside, "pairs": pairs, "inside": inside}

    def _weight(self, moment: Moment) -> float:
        """μ_t: in equal steps up to μ, which the last stage has."""
        stages = self.settings.stages
        stage = min(stages * moment.epoch // max(moment.epochs, 1), stages - 1)
        return self.settings.mu * (stage + 1) / stages
