"""MT-SCDH: SCDH that also learns from unlabelled items (paper, "Mean Teacher Based Semi-Supervised Hashing").

    min  SCDH(labelled) + w(t) R + α Σ_unlabelled l_q
    R = Σ_unlabelled [ −Σ_j q_j log softmax_j(−dist) + λ Σ_j q_j dist_j − μ Σ_j q_j log softmax_j(a) ]      (targets)
    R = Σ_all [ μ d(a, a_T) + d(−dist, −dist_T) ]                                           (softmax: the paper's)

a is fc8's output, dist the distances of u to the centres, d the squared difference of softmaxes; T marks the teacher, a
network whose weights are the moving average of the student's. Both see the same items, each its own random version of
an image, and only the student gets gradients.

§ Embeddings get noise. With the paper's R each network sees its own noise. With targets only the student does, and only
on unlabelled rows: the targets are those of the items as they are, and labelled rows have SCDH's loss unchanged.

§ The paper's R is smallest where all outputs agree, and so also at u = 0. With few labels and w = 50 it gets there:
with 20 labels per class on frozen features of CIFAR-10, ‖u‖ of unlabelled rows fell to a quarter of that of labelled
rows, and validation MAP from SCDH's 0.47 to 0.34. By default the teacher's assignments q are therefore the cluster
targets of SCUL: q_j ∝ softmax_j(−dist_T / τ) · share_j / mean_j. share_j is the share of class j among the labels,
mean_j the moving average of its assignments: no centre attracts more items than its share.

Where rows have several labels, an unlabelled row gets label j if dist_T,j is among the smallest, a share of rows like
that of label j, and R is SCDH's own loss with these labels (:class:`scdh.losses.NearestLabels`).

With ``nested`` the terms of R in dist and u are means over the lengths, as in SCDH. The teacher assigns by the whole
code at every length; the paper's R compares both networks' distances of one length.
"""

import math
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from scdh.errors import ConfigError
from scdh.losses import AlignedTargets, NearestLabels, consistency_loss, softmax_loss, target_loss
from scdh.losses.label_masks import has_label
from scdh.losses.outputs import prefix_distances
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment
from scdh.methods.scdh import (
    COLLAPSE_ADVICE,
    SUITED_SETTINGS,
    ScdhHead,
    ScdhSettings,
    build_head,
    centre_norm,
    objective,
    start_head,
    warm_up,
)
from scdh.nets.network import Network
from scdh.nets.perturbation import perturbed

# § The teacher averages over 100 steps, but at most over a twentieth of the run: in short runs a longer average is
# behind the network at the end (docs/semi_supervised.md has figures).
LARGEST_DECAY, WINDOWS_PER_RUN = 0.99, 20
USUAL_WEIGHTS = {"targets": 1.0, "labels": 0.3, "softmax": 50.0}


class MtScdhSettings(ScdhSettings):
    """SCDH's, and those of the loss on unlabelled rows."""

    consistency: Literal["targets", "softmax"] = Field(
        "targets", description="loss on unlabelled rows: the teacher's cluster targets, or the paper's softmaxes"
    )
    weight: float | None = Field(
        None,
        ge=0,
        description="w, its weight; none: 1 for targets (0.3 with several labels), 50 for softmax; 0: no teacher",
    )
    ramp_up: float = Field(0.3, ge=0, le=1, description="T, share of the run over which w rises as exp(−5 (1 − t/T)²)")
    decay: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="of the teacher's moving average, min(1 − 1/(t+1), this); none: 0.99, but at most 1 − 20/steps",
    )
    temperature: float = Field(
        0.5, gt=0, description="τ of the targets; below 1 they are more certain than the teacher"
    )
    alignment: float = Field(1.0, ge=0, le=1, description="power of share/mean in the targets; 0: no correction")
    noise: float = Field(0.1, ge=0, description="perturbation of embeddings: Gaussian, in deviations of each feature")
    input_dropout: float = Field(0.1, ge=0, lt=1, description="perturbation of embeddings: share of features set to 0")


class MtScdh(Method):
    about = About(
        title="MT-SCDH",
        kind="unary, semi-supervised",
        year=2019,
        reference="Zhang et al., Semantic Cluster Unary Loss for Efficient Deep Hashing, IEEE TIP 2019",
        cost="O(B·C·r), two passes",
        fidelity="variant",
        differs="unlabelled rows learn from the teacher's sharpened cluster assignments; consistency=softmax is the "
        "paper's loss. With it: Mean Teacher's releases divide the classification loss by the whole batch, ours by its "
        "labelled rows, so their w = 50 is 100 here; they use 5,000 ramp-up steps of 40,000 and decay 0.99 during "
        "ramp-up, then 0.999, ours a share of the run (0.3) and 0.99 or less; their teacher drops units, ours does "
        "not. For labels that combine freely form=own is chosen without a preset, form=softmax is the paper's",
        use_when="few rows have labels and many have none",
    )
    Settings = MtScdhSettings
    settings: MtScdhSettings
    preset_settings_of = "scdh"
    tuned_settings = {"weight": (0.3, 1.0, 3.0), "alpha": (0.05, 0.3, 1.0)}  # noqa: RUF012
    learns_from_unlabelled = True
    views = 2
    suited_settings = {kind: own for kind, own in SUITED_SETTINGS.items() if kind != "very many classes"}  # noqa: RUF012
    collapse_advice = COLLAPSE_ADVICE
    unlabelled_advice = "set method.consistency=targets, or lower method.weight"

    def __init__(self, settings: MtScdhSettings, bits: int, num_classes: int, multi_label: bool) -> None:
        super().__init__(settings, bits, num_classes, multi_label)
        self.targets = NearestLabels(num_classes) if multi_label else AlignedTargets(num_classes)

    @property
    def weight(self) -> float:
        """w after the ramp-up."""
        if self.settings.weight is not None:
            return self.settings.weight
        targets = "labels" if self.multi_label else "targets"
        return USUAL_WEIGHTS[targets if self.settings.consistency == "targets" else "softmax"]

    def build(self, net: Network[ScdhHead]) -> None:
        if self.settings.sampled is not None:
            raise ConfigError("MT-SCDH compares the distances to all centres; set method.sampled=none.")
        build_head(self.settings, net, self.num_classes, self.multi_label)

    def teacher_decay(self, steps: int) -> float:
        if not self.weight:
            return 0.0
        decay = self.settings.decay
        return min(LARGEST_DECAY, max(1 - WINDOWS_PER_RUN / steps, 0.5)) if decay is None else decay

    def prepare(self, net: Network[ScdhHead], data: MethodData) -> None:
        self.targets.set_share(torch.from_numpy(data.labels))
        start_head(self.settings, net, data)

    def step(self, net: Network[ScdhHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        s, teacher = self.settings, moment.teacher
        if teacher is None:  # w = 0: plain SCDH, so nothing is perturbed either
            outputs = net(batch.inputs)
            return objective(s, net.head, outputs.u, net.head.fc8(outputs.hidden), batch.labels)
        unlabelled, has_targets = ~has_label(batch.labels), s.consistency == "targets"
        student = _look(net, perturbed(batch.inputs, s.noise, s.input_dropout, unlabelled if has_targets else None))
        with torch.no_grad():
            other_view = (*batch.other_views, batch.inputs)[0]
            # Each network measures to its own centres: the teacher's are averaged like its other weights.
            taught = _look(teacher, other_view if has_targets else perturbed(other_view, s.noise, s.input_dropout))
        parts = objective(s, net.head, student.u, student.scores, batch.labels)
        if has_targets:
            on_classes, on_centres = self._targets_loss(net.head, student, taught, unlabelled)
        else:
            on_classes = consistency_loss(student.scores, taught.scores)
            on_centres = consistency_loss(-student.distances.flatten(0, 1), -taught.distances.flatten(0, 1))
        weight = self.weight * ramp_up(moment.epochs_done / moment.epochs, s.ramp_up)
        loss = parts["loss"] + weight * (s.mu * on_classes + on_centres)
        figures = {"consistency_fc8": on_classes, "consistency_centres": on_centres, "w": loss.new_tensor(weight)}
        return {**parts, "loss": loss, **figures}

    def _targets_loss(
        self, head: ScdhHead, student: "_Look", taught: "_Look", unlabelled: Tensor
    ) -> tuple[Tensor, Tensor]:
        """R's two parts, on fc8 and on the centres, without μ."""
        s = self.settings
        scores, u = student.scores[unlabelled], student.u[unlabelled]
        taught_distances = taught.distances[-1, unlabelled]
        if isinstance(self.targets, NearestLabels):
            labels = self.targets(taught_distances)
            return softmax_loss(scores, labels), head.scul(u, labels, head.lengths)
        targets = self.targets(-taught_distances, s.temperature, s.alignment)
        every, distances = targets.repeat(len(head.lengths), 1), student.distances[:, unlabelled].flatten(0, 1)
        own_distance = (every * distances).sum() / max(1, len(every))
        return target_loss(scores, targets), target_loss(-distances, every) + s.lam * own_distance

    def after_step(self, net: Network[ScdhHead], moment: Moment) -> None:
        warm_up(self.settings, net.head, moment.epoch)

    def end_epoch(self, net: Network[ScdhHead], data: MethodData, moment: Moment) -> dict[str, float]:
        return centre_norm(net.head)

    def centres(self, net: Network[ScdhHead]) -> Tensor:
        return net.head.centres


class _Look(NamedTuple):
    """What a network makes of a batch: u [B, r], fc8's scores [B, C], and for each length b the distances of the first
    b outputs to the centres, [P, B, C]."""

    u: Tensor
    scores: Tensor
    distances: Tensor


def _look(net: Network[ScdhHead], inputs: Tensor) -> _Look:
    outputs, head = net(inputs), net.head
    return _Look(outputs.u, head.fc8(outputs.hidden), prefix_distances(outputs.u, head.centres, head.lengths))


def ramp_up(done: float, length: float) -> float:
    """exp(−5 (1 − t/T)²) up to T, then 1: an untrained teacher must not guide the student. t, T: shares of the run."""
    return math.exp(-5 * (1 - done / length) ** 2) if done < length else 1.0
