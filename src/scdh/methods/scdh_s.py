"""SCDH-S: SCDH with plain softmax in place of SCUL, the first variant of the paper's "Ablation Study".

    min  l_c(u, y; C) + μ l_1(fc8, y) + α l_q(u),     l_c = −log softmax_y(C^T u)

λ = 0, and inner products take the place of distances. § The paper writes l_c for one label only; many labels are
weighted by 1/|Y| here, as in SCUL. § It names no other change, so fc8 and l_q stay, with SCDH's weights.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses import inner_product_loss, quantization_loss, softmax_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import HashHead, linear_head, random_centres
from scdh.nets.network import Network


class ScdhSSettings(Settings):
    """Defaults are SCDH's for CIFAR-10."""

    mu: float = Field(0.2, ge=0, description="μ, weight of the classification loss on fc8")
    alpha: float = Field(0.05, ge=0, description="α, weight of the quantization loss")
    p: float = Field(3.0, gt=1, description="norm of the quantization loss")
    centre_std: float = Field(0.5, gt=0, description="c starts from N(0, this)")


class ScdhSHead(HashHead):
    """The hash layer, fc8, and c [C, r], which classifies by inner products with u."""

    no_weight_decay = frozenset({"classifier"})

    def __init__(self, width: int, bits: int, num_classes: int, std: float) -> None:
        super().__init__(width, bits)
        self.fc8 = linear_head(width, num_classes)
        self.classifier = random_centres(num_classes, bits, std)


class ScdhS(Method):
    about = About(
        title="SCDH-S",
        kind="unary",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019 (ablation)",
        cost="O(B·C·r)",
        fidelity="faithful",
        differs="with several labels, which the paper does not write down, each has the weight 1/|Y|",
        use_when="a comparison should show what centres gain over a softmax on the codes",
    )
    Settings = ScdhSSettings
    settings: ScdhSSettings
    preset_settings_of = "scdh"
    # SCDH's, so that the two differ in nothing but the loss.
    suited_settings = {  # noqa: RUF012
        "embeddings": {"alpha": 0.5},
        "frozen images": {"alpha": 0.3},
        "tuned images": {"alpha": 1.0},
        "many labels": {"mu": 0.1},
        "very many classes": {"mu": 0.0},
    }
    tuned_settings = {"alpha": (0.05, 0.3, 1.0), "mu": (0.05, 0.2, 1.0)}  # noqa: RUF012

    def build(self, net: Network[ScdhSHead]) -> None:
        net.head = ScdhSHead(net.width, net.bits, self.num_classes, self.settings.centre_std)

    def step(self, net: Network[ScdhSHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, outputs = self.settings, net(batch.inputs)
        cluster = inner_product_loss(outputs.u, batch.labels, net.head.classifier)
        classification = softmax_loss(net.head.fc8(outputs.hidden), batch.labels)
        quantization = quantization_loss(outputs.u, s.p)  # over all rows, labelled or not
        loss = cluster + s.mu * classification + s.alpha * quantization
        return {"loss": loss, "l_c": cluster, "l_1": classification, "l_q": quantization}
