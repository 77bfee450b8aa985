"""SemiSDH: Semi-supervised Deep Hashing of Zhang & Peng, with a graph of neighbours that is rebuilt for each batch.

    min  ½ rank(labelled) + λ [ neighbours(all) + pseudo(unlabelled) ] + ½ ‖σ(fc8) − y‖²(labelled),     h = σ(u)

rank is the triplet hinge max(0, m + ‖h_i − h_j‖² − ‖h_i − h_k‖²); ``neighbour_loss`` draws each row to the rows of the
batch that are nearest to it now and away from far ones, ``pseudo_label_loss`` each unlabelled row to those of its most
likely class and away from those of its least likely one. Called SSDH by its authors.

As in the authors' release for MIRFlickr. Its classification loss is printed as −log σ(fc8), but its gradient is that of
the squared difference, which is what is minimised. Neighbours and triplets are those within a process's share of the
batch: with several processes there are fewer. A row is not its own positive in a triplet, and with several labels the
other two rows may share one; the release differs in both. The paper's scores were not tried with the paper's data.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses import neighbour_loss, pseudo_label_loss, squared_sigmoid_loss, triplet_hinge_loss
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.heads import HashHead, linear_head
from scdh.nets.network import Network

SHORT = 12  # bits up to which the release has a margin and far rows of its own


class SemisdhSettings(Settings):
    """Defaults are those of the authors' release, whose batches have 128 rows: far rows are given as shares of it."""

    weight: float = Field(0.1, ge=0, description="λ, weight of the losses on neighbours and predicted classes")
    rank_margin: float = Field(1.0, ge=0, description="m of the triplets")
    margin: float | None = Field(None, gt=0, description="m of far rows; none: 2.5 up to 12 bits, else 3")
    near: int = Field(8, ge=1, description="nearest rows that attract, with the row itself; a third of a batch at most")
    far_from: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="share of the batch behind which rows are far; none: 120/128 up to 12 bits, else 114/128",
    )
    far_to: float = Field(124 / 128, gt=0, le=1, description="share of the batch up to which rows are far")


class SemisdhHead(HashHead):
    """The hash layer, and fc8, which predicts classes."""

    def __init__(self, width: int, bits: int, num_classes: int) -> None:
        super().__init__(width, bits)
        self.fc8 = linear_head(width, num_classes)


class Semisdh(Method):
    about = About(
        title="SemiSDH",
        kind="triplet, semi-supervised",
        year=2017,
        reference="Zhang & Peng, SSDH: Semi-supervised Deep Hashing for Large Scale Image Retrieval, IEEE TCSVT 2017",
        cost="O(B²·(r + log B))",
        fidelity="variant",
        differs="as released for MIRFlickr; all triplets and neighbours of a batch count, where one of each is drawn",
        use_when="few rows have labels and many have none",
    )
    Settings = SemisdhSettings
    settings: SemisdhSettings
    tuned_settings = {"weight": (0.03, 0.1, 0.3), "rank_margin": (1.0, 2.0, 3.0)}  # noqa: RUF012
    learns_from_unlabelled = True

    def build(self, net: Network[SemisdhHead]) -> None:
        net.head = SemisdhHead(net.width, net.bits, self.num_classes)

    def step(self, net: Network[SemisdhHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s = self.settings
        y = batch.labels
        outputs = net(batch.inputs)
        h = full_precision(outputs.u).sigmoid()  # codes are the signs of u: u ≥ 0 where h ≥ ½
        scores = net.head.fc8(outputs.hidden)
        margin = s.margin if s.margin is not None else 2.5 if self.bits <= SHORT else 3.0
        rank = triplet_hinge_loss(h, y, s.rank_margin) / 2
        neighbours = neighbour_loss(h, max(1, min(s.near, len(h) // 3)), self.far_places(len(h)), margin)
        pseudo = pseudo_label_loss(h, scores, y, margin)
        classification = squared_sigmoid_loss(scores, y)
        loss = rank + s.weight * (neighbours + pseudo) + classification
        return {"loss": loss, "rank": rank, "neighbours": neighbours, "pseudo": pseudo, "l_1": classification}

    def far_places(self, batch: int) -> tuple[int, int]:
        """Places (from, to) of far rows in the order of distances; at least one, and never the row itself."""
        s = self.settings
        share = s.far_from if s.far_from is not None else (120 if self.bits <= SHORT else 114) / 128
        first = max(1, int(batch * share))
        return first, max(first + 1, int(batch * s.far_to))
