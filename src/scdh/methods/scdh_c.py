"""SCDH-C: softmax and centre loss in place of SCUL, the second variant of the paper's "Ablation Study".

    min  1/|Y| Σ_{s∈Y} [ −log softmax_s(c^T u) + λ ‖u − w_s‖² ] + α l_q(u)

μ = 0, so there is no fc8. c are the weights of the classifier, w the centres: two sets of C vectors, where SCUL has
one. § λ is not given for this variant; SCDH's is taken (Wen et al. use 0.003 with ½‖·‖²).
"""

from typing import Literal

from pydantic import Field
from torch import Tensor

from scdh.losses import centre_loss, inner_product_loss, quantization_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import HashHead, random_centres
from scdh.nets.network import Network


class ScdhCSettings(Settings):
    """Defaults are SCDH's for CIFAR-10."""

    lam: float = Field(0.005, ge=0, description="λ, weight of the squared distance to the own centres")
    alpha: float = Field(0.05, ge=0, description="α, weight of the quantization loss")
    p: float = Field(3.0, gt=1, description="norm of the quantization loss")
    centre_std: float = Field(0.5, gt=0, description="c and w start from N(0, this)")
    form: Literal["softmax", "own"] = Field(
        "softmax", description="form of the softmax; own: labels of one item do not compete (not the paper's)"
    )


class ScdhCHead(HashHead):
    """The hash layer, the classifier's weights c [C, r], and the centres w [C, r]."""

    no_weight_decay = frozenset({"classifier", "centres"})

    def __init__(self, width: int, bits: int, num_classes: int, std: float) -> None:
        super().__init__(width, bits)
        self.classifier = random_centres(num_classes, bits, std)
        self.centres = random_centres(num_classes, bits, std)


class ScdhC(Method):
    about = About(
        title="SCDH-C",
        kind="unary",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019 (ablation)",
        cost="O(B·C·r)",
        fidelity="variant",
        differs="the rate of its centres is ours; for labels that combine freely form=own is chosen without "
        "a preset, form=softmax is the paper's",
        use_when="a comparison should show what the cluster loss gains over a centre loss",
    )
    Settings = ScdhCSettings
    settings: ScdhCSettings
    preset_settings_of = "scdh"
    # SCDH's, so that the two differ in nothing but the loss.
    suited_settings = {  # noqa: RUF012
        "embeddings": {"alpha": 0.5},
        "frozen images": {"alpha": 0.3},
        "tuned images": {"alpha": 1.0},
        "many labels": {"lam": 0.001},
        "labels that combine": {"form": "own"},
    }
    tuned_settings = {"lam": (0.005, 0.03, 0.1), "alpha": (0.05, 0.3, 1.0)}  # noqa: RUF012

    def build(self, net: Network[ScdhCHead]) -> None:
        net.head = ScdhCHead(net.width, net.bits, self.num_classes, self.settings.centre_std)

    def step(self, net: Network[ScdhCHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s = self.settings
        u = net(batch.inputs).u
        y = batch.labels
        w = net.head.centres
        classification = inner_product_loss(u, y, net.head.classifier, own=s.form == "own")
        pull = centre_loss(u, y, w.detach())
        quantization = quantization_loss(u, s.p)  # over all rows, labelled or not
        # § Wen et al. move a centre to the mean of its class at a rate of its own, which λ does not slow down: with the
        # gradient of λ‖u − w‖² the centres would hardly leave their random start. So w gets the gradient of ‖u − w‖²
        # without λ; the difference is 0 and changes no value.
        follow = centre_loss(u.detach(), y, w)
        loss = classification + s.lam * pull + s.alpha * quantization + (follow - follow.detach())
        return {"loss": loss, "l_c": classification, "centre": pull, "l_q": quantization}

    def centres(self, net: Network[ScdhCHead]) -> Tensor:
        return net.head.centres
