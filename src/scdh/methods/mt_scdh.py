"""MT-SCDH: SCDH that also learns from unlabelled items (paper, "Mean Teacher Based Semi-Supervised Hashing").

    min  SCDH(labelled) + w(t) Σ_all [ μ d(a, a_T) + d(−dist, −dist_T) ] + α Σ_unlabelled l_q

a is fc8's output, dist the distances of u to the centres, d the squared difference of softmaxes; T marks the teacher, a
network whose weights are the moving average of the student's. Both see the same items, each under a random change of
its own, and only the student is changed by what they disagree on.
"""

import math

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import dropout

from scdh.data.batches.loaders import Batch
from scdh.losses import consistency_loss, euclidean_distances
from scdh.methods.base import START, About, Method, Moment
from scdh.methods.scdh import ScdhSettings, add_heads, centre_norm, objective, warm_up
from scdh.nets.network import Network, Outputs


class MtScdhSettings(ScdhSettings):
    """SCDH's, and Mean Teacher's own published values for what the paper leaves open."""

    weight: float = Field(50.0, ge=0, description="w, weight of the consistency loss; 0: no teacher, as SCDH")
    ramp_up: float = Field(5.0, ge=0, description="T, epochs over which w rises as exp(−5 (1 − t/T)²)")
    decay: float = Field(0.999, gt=0, lt=1, description="of the teacher's moving average, min(1 − 1/(t+1), this)")
    noise: float = Field(0.1, ge=0, description="change of embeddings: Gaussian, in deviations of each feature")
    input_dropout: float = Field(0.1, ge=0, lt=1, description="change of embeddings: share of features set to 0")


class MtScdh(Method):
    about = About(
        title="MT-SCDH",
        kind="unary, semi-supervised",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019",
        cost="O(B·C·r), two passes",
        faithful="faithful; the teacher drops no units",
    )
    Settings = MtScdhSettings
    settings: MtScdhSettings
    learns_from_unlabelled = True

    def build(self, net: Network) -> None:
        add_heads(self.settings, net, self.num_classes)

    @property
    def teacher_decay(self) -> float:
        return self.settings.decay if self.settings.weight else 0.0

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, teacher = self.settings, moment.teacher
        if teacher is None:  # w = 0: nothing to agree with, so nothing is changed at random either
            return objective(s, net, net(batch.inputs), batch.labels)
        mine = net(self._changed(batch.inputs))
        with torch.no_grad():
            other = batch.other_views[0] if batch.other_views else batch.inputs
            theirs = teacher(self._changed(other))
        parts = objective(s, net, mine, batch.labels)
        on_classes = consistency_loss(_logits(mine), _logits(theirs))
        on_centres = consistency_loss(_scores(net, mine), _scores(teacher, theirs))
        weight = s.weight * ramp_up(moment.epoch, s.ramp_up)
        loss = parts["loss"] + weight * (s.mu * on_classes + on_centres)
        figures = {"consistency_fc8": on_classes, "consistency_centres": on_centres, "w": loss.new_tensor(weight)}
        return {**parts, "loss": loss, **figures}

    def after_step(self, net: Network, epoch: int) -> None:
        warm_up(self.settings, net, epoch)

    def end_epoch(self, net: Network, epoch: int) -> dict[str, float]:
        return centre_norm(net)

    def _changed(self, inputs: Tensor) -> Tensor:
        """Vectors with noise and with some features dropped; pictures come changed already (two augmented views).

        § The paper speaks of pictures only. The noise follows each feature's own deviation in the batch, so that it
        means the same for embeddings of any scale, and a feature that never varies gets none.
        """
        if not inputs.is_floating_point() or inputs.ndim != 2:
            return inputs
        if self.settings.noise:
            spread = inputs.std(dim=0, correction=0)
            inputs = inputs + self.settings.noise * spread * torch.randn_like(inputs)
        return dropout(inputs, self.settings.input_dropout) if self.settings.input_dropout else inputs


def ramp_up(epoch: float, length: float) -> float:
    """exp(−5 (1 − t/T)²) up to T epochs, then 1: no pull towards a teacher that knows nothing yet."""
    return math.exp(-5 * (1 - epoch / length) ** 2) if epoch < length else 1.0


def _logits(out: Outputs) -> Tensor:
    assert out.logits is not None  # add_heads() put fc8 there
    return out.logits


def _scores(net: Network, out: Outputs) -> Tensor:
    """−dist to the centres, each network's own: the teacher's are averaged like its other weights."""
    assert net.centres is not None
    return -euclidean_distances(out.u, net.centres)
