"""DTSH: Deep Supervised Hashing with Triplet Labels, the likelihood that the similar row is the nearer one.

    min  −log σ(θ_ij − θ_ik − α) + η ‖b_i − u_i‖²,     θ_ij = u_i · u_j / 2, b = sgn(u)

(i, j) share a label and (i, k) do not. Both terms are means, over triplets and over rows. § The authors compare a batch
with rows of other batches, by the outputs that these had last, and draw 50 similar and 50 dissimilar rows of each other
class for every anchor; here all triplets of the batch count, and all three rows get gradients.

Triplets are formed within a process's share of the batch: with several processes there are fewer of them.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses import sign_distance_loss
from scdh.losses.triplet import triplet_likelihood_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network


class DtshSettings(Settings):
    margin: float | None = Field(None, ge=0, description="α; none: half the number of bits, the authors'")
    # The authors take 100 with a sum over 50 · 50 · 9 triplets of an anchor, and their gradient of ‖b − u‖² has twice
    # the factor that it has here: 200 / 22,500 with means.
    eta: float = Field(0.0089, ge=0, description="η, weight of ‖b − u‖², mean over rows")


class Dtsh(Method):
    about = About(
        title="DTSH",
        kind="triplet",
        year=2016,
        reference="Wang et al., Deep Supervised Hashing with Triplet Labels, ACCV 2016",
        cost="O(B²·r + B³/C)",
        fidelity="variant",
        differs="triplets of the batch, not of stored outputs, so that all three rows get gradients",
        use_when="you want a triplet method whose outputs grow beyond ±1",
    )
    Settings = DtshSettings
    settings: DtshSettings
    tuned_settings = {"margin": (None, "r/4", "r/8"), "eta": (0.003, 0.0089, 0.03)}  # noqa: RUF012

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, u = self.settings, net(batch.inputs).u
        triplets = triplet_likelihood_loss(u, batch.labels, self.bits / 2 if s.margin is None else s.margin)
        corners = sign_distance_loss(u, batch.labels, p=2)
        return {"loss": triplets + s.eta * corners, "triplets": triplets, "corners": corners}
