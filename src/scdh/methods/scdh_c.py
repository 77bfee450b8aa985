"""SCDH-C: softmax and centre loss in place of SCUL, the second variant of the paper's "Ablation Study".

    min  1/|Y| Σ_{s∈Y} [ −log softmax_s(c^T u) + λ ‖u − w_s‖² ] + α l_q(u)

μ = 0, so there is no fc8. c are the weights of the classifier, w the centres: two sets of C vectors, where SCUL has
one. § λ is not given for this variant; SCDH's is taken (Wen et al. use 0.003 with ½‖·‖²).
"""

from pydantic import Field
from torch import Tensor, nn

from scdh.config import Settings
from scdh.data.batches.loaders import Batch
from scdh.losses import centre_loss, inner_product_loss, quantization_loss
from scdh.methods.base import START, About, Method, Moment
from scdh.nets.heads import centres
from scdh.nets.network import Network


class ScdhCSettings(Settings):
    """Defaults are SCDH's for CIFAR-10."""

    lam: float = Field(0.005, ge=0, description="λ, weight of the squared distance to the own centres")
    alpha: float = Field(0.05, ge=0, description="α, weight of the quantization loss")
    p: float = Field(3.0, gt=1, description="norm of the quantization loss")
    centre_std: float = Field(0.5, gt=0, description="c and w start from N(0, this)")


class ScdhC(Method):
    about = About(
        title="SCDH-C",
        kind="unary",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019 (ablation)",
        cost="O(B·C·r)",
        faithful="faithful but for the rate of its centres",
    )
    Settings = ScdhCSettings
    settings: ScdhCSettings

    def build(self, net: Network) -> None:
        size = (self.num_classes, net.bits, self.settings.centre_std)
        net.centres = nn.Parameter(centres(*size))
        net.register_parameter("cluster_centres", nn.Parameter(centres(*size)))

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, u, y = self.settings, net(batch.inputs).u, batch.labels
        assert net.centres is not None  # build() put them there
        w = net.get_parameter("cluster_centres")
        classification = inner_product_loss(u, y, net.centres)
        pull = centre_loss(u, y, w.detach())
        quantization = quantization_loss(u, s.p)  # over all rows, labelled or not
        # § Wen et al. move a centre to the mean of its class at a rate of its own, which λ does not slow down: with the
        # gradient of λ‖u − w‖² the centres would hardly leave the place chance gave them. So w gets the gradient of
        # ‖u − w‖² without λ; the difference is 0 and changes no value.
        follow = centre_loss(u.detach(), y, w)
        loss = classification + s.lam * pull + s.alpha * quantization + (follow - follow.detach())
        return {"loss": loss, "l_c": classification, "centre": pull, "l_q": quantization}
