"""DCH: Deep Cauchy Hashing, a likelihood of pairs that falls fast beyond a small Hamming distance.

    min  w_ij [ s_ij log(d_ij/γ) + log(1 + γ/d_ij) ] + λ log(1 + d(|u_i|, 1)/γ),     d_ij = r/2 (1 − cos(u_i, u_j))

w_ij is |S|/|S₁| for similar and |S|/|S₀| for dissimilar pairs of the batch; s = 1 iff i and j share a label. Codes of a
class are drawn into a small ball, which suits search within a radius. Pairs are formed within a process's share of the
batch.

§ The equations are the paper's as a public port quotes them. The authors' release takes squared Euclidean distances of
tanh u in place of d, weighs dissimilar pairs by 1, and has λ = 0.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses import cauchy_corner_loss, cauchy_pair_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network


class DchSettings(Settings):
    gamma: float = Field(20.0, gt=0, description="γ, scale of the distribution in bits; 20 in the authors' release")
    corner_weight: float = Field(0.1, ge=0, description="λ, weight of the quantization loss; 0 in the authors' release")


class Dch(Method):
    about = About(
        title="DCH",
        kind="pairwise",
        year=2018,
        reference="Cao et al., Deep Cauchy Hashing for Hamming Space Retrieval, CVPR 2018",
        cost="O(B²·(r + C))",
        fidelity="variant",
        differs="the paper's equations as a public port quotes them, on u without tanh; the authors' release has other "
        "distances and weights",
        use_when="codes are looked up within a small radius",
    )
    Settings = DchSettings
    settings: DchSettings
    tuned_settings = {"gamma": (5.0, 20.0, 50.0), "corner_weight": (0.0, 0.1, 1.0)}  # noqa: RUF012
    # γ = 20 is wider than short codes are. Validation MAP of digits: 12 bits 0.772 → 0.891, 32 bits 0.895 → 0.893.
    suited_settings = {"embeddings": {"gamma": 5.0}}  # noqa: RUF012

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        u = net(batch.inputs).u
        y = batch.labels
        s = self.settings
        pairs, corners = cauchy_pair_loss(u, y, s.gamma), cauchy_corner_loss(u, y, s.gamma)
        return {"loss": pairs + s.corner_weight * corners, "pairs": pairs, "corners": corners}
