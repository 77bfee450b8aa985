"""MT-SCDH: SCDH that also learns from unlabelled items (paper, "Mean Teacher Based Semi-Supervised Hashing").

    min  SCDH(labelled) + w(t) Σ_all [ μ d(a, a_T) + d(−dist, −dist_T) ] + α Σ_unlabelled l_q

a is fc8's output, dist the distances of u to the centres, d the squared difference of softmaxes; T marks the teacher, a
network whose weights are the moving average of the student's. Both see the same items, each under a random
perturbation of its own, and only the student gets gradients from their difference.
"""

import math

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import dropout

from scdh.losses import consistency_loss, euclidean_distances
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment
from scdh.methods.scdh import (
    COLLAPSE_ADVICE,
    SUITED_SETTINGS,
    ScdhHead,
    ScdhSettings,
    build_head,
    centre_norm,
    objective,
    warm_up,
)
from scdh.nets.network import Network


class MtScdhSettings(ScdhSettings):
    """SCDH's, and Mean Teacher's own published values for what the paper leaves open."""

    weight: float = Field(50.0, ge=0, description="w, weight of the consistency loss; 0: no teacher, as SCDH")
    ramp_up: float = Field(5.0, ge=0, description="T, epochs over which w rises as exp(−5 (1 − t/T)²)")
    decay: float = Field(0.999, gt=0, lt=1, description="of the teacher's moving average, min(1 − 1/(t+1), this)")
    noise: float = Field(0.1, ge=0, description="perturbation of embeddings: Gaussian, in deviations of each feature")
    input_dropout: float = Field(0.1, ge=0, lt=1, description="perturbation of embeddings: share of features set to 0")


class MtScdh(Method):
    about = About(
        title="MT-SCDH",
        kind="unary, semi-supervised",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019",
        cost="O(B·C·r), two passes",
        fidelity="faithful",
        differs="what the paper leaves open is Mean Teacher's (decay, ramp-up, mean over classes), but the teacher "
        "drops no units; for labels that combine freely scdh train chooses form=own, scdh compare keeps the paper's "
        "softmax",
        use_when="few rows have labels and many have none",
    )
    Settings = MtScdhSettings
    settings: MtScdhSettings
    preset_settings_of = "scdh"
    tuned_settings = {"weight": (5.0, 20.0, 50.0), "alpha": (0.05, 0.3, 1.0)}  # noqa: RUF012
    learns_from_unlabelled = True
    views = 2
    suited_settings = SUITED_SETTINGS
    collapse_advice = COLLAPSE_ADVICE

    def build(self, net: Network[ScdhHead]) -> None:
        build_head(self.settings, net, self.num_classes)

    @property
    def teacher_decay(self) -> float:
        return self.settings.decay if self.settings.weight else 0.0

    def step(self, net: Network[ScdhHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, teacher = self.settings, moment.teacher
        if teacher is None:  # w = 0: plain SCDH, so nothing is perturbed either
            outputs = net(batch.inputs)
            return objective(s, net.head, outputs, net.head.fc8(outputs.hidden), batch.labels)
        student_outputs = net(self._perturb(batch.inputs))
        student_logits = net.head.fc8(student_outputs.hidden)
        with torch.no_grad():
            second_view = batch.other_views[0] if batch.other_views else batch.inputs
            teacher_outputs = teacher(self._perturb(second_view))
            teacher_logits = teacher.head.fc8(teacher_outputs.hidden)
        parts = objective(s, net.head, student_outputs, student_logits, batch.labels)
        on_classes = consistency_loss(student_logits, teacher_logits)
        # Each network measures to its own centres: the teacher's are averaged like its other weights.
        on_centres = consistency_loss(
            -euclidean_distances(student_outputs.u, net.head.centres),
            -euclidean_distances(teacher_outputs.u, teacher.head.centres),
        )
        weight = s.weight * ramp_up(moment.epochs_done, s.ramp_up)
        loss = parts["loss"] + weight * (s.mu * on_classes + on_centres)
        figures = {"consistency_fc8": on_classes, "consistency_centres": on_centres, "w": loss.new_tensor(weight)}
        return {**parts, "loss": loss, **figures}

    def after_step(self, net: Network[ScdhHead], moment: Moment) -> None:
        warm_up(self.settings, net.head, moment.epoch)

    def end_epoch(self, net: Network[ScdhHead], data: MethodData, moment: Moment) -> dict[str, float]:
        return centre_norm(net.head)

    def centres(self, net: Network[ScdhHead]) -> Tensor:
        return net.head.centres

    def _perturb(self, inputs: Tensor) -> Tensor:
        """Vectors with noise and with some features set to 0; images come perturbed already (two augmented views).

        § The paper speaks of images only. The noise follows each feature's own deviation in the batch, so that it
        means the same for embeddings of any scale, and a feature that never varies gets none.
        """
        if not inputs.is_floating_point() or inputs.ndim != 2:
            return inputs
        if self.settings.noise:
            spread = inputs.std(dim=0, correction=0)
            inputs = inputs + self.settings.noise * spread * torch.randn_like(inputs)
        return dropout(inputs, self.settings.input_dropout) if self.settings.input_dropout else inputs


def ramp_up(epoch: float, length: float) -> float:
    """exp(−5 (1 − t/T)²) up to T epochs, then 1: an untrained teacher must not guide the student."""
    return math.exp(-5 * (1 - epoch / length) ** 2) if epoch < length else 1.0
