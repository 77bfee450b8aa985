"""DSH: Deep Supervised Hashing, a contrastive loss over the pairs of a batch.

    min  s/2 d² + (1 − s)/2 max(m − d², 0) + a ‖|u| − 1‖_1

d = |u_i − u_j|, and s = 1 iff i and j share a label.

Where rows have several labels most pairs may be similar, and all codes contract; ``balance`` weighs both kinds of pairs
alike. Pairs are formed within a process's share of the batch: with several processes there are fewer of them.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses import contrastive_loss, sign_distance_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network


class DshSettings(Settings):
    """Defaults are those of the authors' release; its a = 0.01 is 0.02 here (see ``step``)."""

    margin: float | None = Field(None, gt=0, description="m, on squared distances; none: 2 × bits, half the bits apart")
    corner_weight: float = Field(0.02, ge=0, description="a, weight of the L1 distance of |u| to 1")
    balance: bool = Field(
        False, description="similar and dissimilar pairs weigh the same in total (not the paper's); for several labels"
    )


class Dsh(Method):
    about = About(
        title="DSH",
        kind="pairwise",
        year=2016,
        reference="Liu et al., Deep Supervised Hashing for Fast Image Retrieval, CVPR 2016",
        cost="O(B²·r)",
        fidelity="faithful",
        differs="a = 0.02 is the authors' 0.01: in their release the gradient of a pair is half that of the loss",
        use_when="you want a simple pairwise baseline",
    )
    Settings = DshSettings
    settings: DshSettings
    learns_from_pairs = True
    tuned_settings = {"corner_weight": (0.003, 0.02, 0.1), "margin": (None, "r", "r/2")}  # noqa: RUF012

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, u = self.settings, net(batch.inputs).u
        # With a margin that does not grow with the bits, few of them would be enough to satisfy it.
        margin = 2.0 * self.bits if s.margin is None else s.margin
        pairs = contrastive_loss(u, batch.labels, margin, s.balance, self.known_pairs(batch))
        # Each item counts once, not once for every pair it is in, as in the authors' release. § There the gradient of a
        # pair is half that of the loss, but the gradient of this term is not halved: a = 0.01 there is 0.02 here.
        corners = sign_distance_loss(u, batch.labels, p=1)
        return {"loss": pairs + s.corner_weight * corners, "pairs": pairs, "corners": corners}
