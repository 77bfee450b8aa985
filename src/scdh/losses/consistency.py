"""Losses between student and teacher (paper, "The MT-SCDH Model"), and targets from the teacher's outputs."""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scdh.losses.label_masks import label_mask
from scdh.losses.outputs import full_precision, same_shape

MEAN_DECAY = 0.99  # decay of the moving averages of assignments and distances
QUANTILE_RATE = 0.1  # step of the moving quantiles, in deviations
CERTAIN_SHARE = 0.6  # best of 0.4, 0.6, 1 on validation rows of MIRFLICKR with 5 and 20 labels per class


def consistency_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """d(x, y) = ‖softmax x − softmax y‖², averaged over batch and classes.

    § The paper writes a sum over the C classes; w = 50 comes from Mean Teacher, whose distance is the mean over them.

    Args:
        student: float tensor [B, C], scores before the softmax.
        teacher: float tensor [B, C], the teacher's scores; they get no gradient.

    Returns:
        float tensor [], 0 for an empty batch.
    """
    student, teacher = same_shape(student, teacher, "student", "teacher")
    with torch.autocast(student.device.type, enabled=False):
        difference = full_precision(student).softmax(1) - full_precision(teacher.detach()).softmax(1)
        return difference.square().mean() if difference.numel() else difference.sum()


def target_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """−Σ_j q_j log softmax_j(scores), averaged over the batch: cross-entropy with soft targets q.

    Unlike :func:`consistency_loss` it does not fall if the outputs become less certain than the targets, so it does not
    draw them all to one point.

    Args:
        scores: float tensor [B, C], before the softmax.
        targets: float tensor [B, C] whose rows sum to 1; they get no gradient.

    Returns:
        float tensor [], 0 for an empty batch.
    """
    scores, targets = same_shape(scores, targets, "scores", "targets")
    with torch.autocast(scores.device.type, enabled=False):
        losses = -(full_precision(targets.detach()) * full_precision(scores).log_softmax(1)).sum(1)
        return losses.mean() if losses.numel() else losses.sum()


def teacher_targets(scores: Tensor, temperature: float, correction: Tensor) -> Tensor:
    """q_j ∝ softmax_j(scores / τ) · correction_j: the teacher's assignments, sharper, and corrected per class.

    Args:
        scores: float tensor [B, C], the teacher's scores before the softmax.
        temperature: τ; below 1 the targets are more certain than the teacher.
        correction: float tensor [C], for example share of a class among the labels / mean of its assignments.

    Returns:
        float tensor [B, C]; rows sum to 1.
    """
    with torch.autocast(scores.device.type, enabled=False):
        targets = (full_precision(scores) / temperature).softmax(1) * correction
        return targets / targets.sum(1, keepdim=True).clamp(min=1e-12)


class AlignedTargets(nn.Module):
    """Targets q_j ∝ softmax_j(scores / τ) · (share_j / mean_j)^a of unlabelled rows, from the teacher's scores.

    ``share`` [C] is the share of each class among the labels, ``mean`` [C] the moving average of the assignments.

    Args:
        num_classes: C.
    """

    share: Tensor
    mean: Tensor

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("share", torch.full((num_classes,), 1 / max(1, num_classes)))
        self.register_buffer("mean", self.share.clone())

    def set_share(self, y: Tensor) -> None:
        """From labels int64 [n] with −1 for no label, or multi-hot [n, C]; they stay equal where no row has a label."""
        mask = label_mask(y, len(self.share)).double()
        total = (mask / mask.sum(1, keepdim=True).clamp(min=1)).sum(0)
        if total.sum():
            self.share.copy_(total / total.sum())

    @torch.no_grad()
    def forward(self, scores: Tensor, temperature: float, alignment: float) -> Tensor:
        """Targets [n, C] of scores [n, C]; also updates the mean, over the rows of all processes."""
        count, mean = _means((full_precision(scores) / temperature).softmax(1))
        if count:
            self.mean.lerp_(mean.to(self.mean.dtype), 1 - MEAN_DECAY)
        correction = (self.share / self.mean.clamp(min=1e-4)) ** alignment
        return teacher_targets(scores, temperature, correction.to(scores.dtype))


class NearestLabels(nn.Module):
    """Labels of unlabelled rows that may have several: row i has label j if centre j is near, d_ij < θ_j.

    θ_j is a moving quantile of d_j: a share of rows like that among the labelled rows gets label j, so no centre
    attracts all rows and none goes without. ``threshold`` [C] is θ, ``spread`` [C] the moving deviation of d.

    Args:
        num_classes: C.
        certain: which part of the share of a label gets it. Below 1, because labelled rows that were picked per class
            have more labels than others, and the nearest rows are the surest.
    """

    share: Tensor
    threshold: Tensor
    spread: Tensor
    started: Tensor

    def __init__(self, num_classes: int, certain: float = CERTAIN_SHARE) -> None:
        super().__init__()
        self.certain = certain
        self.register_buffer("share", torch.full((num_classes,), 1 / max(1, num_classes)))
        self.register_buffer("threshold", torch.zeros(num_classes))
        self.register_buffer("spread", torch.zeros(num_classes))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def set_share(self, y: Tensor) -> None:
        """From labels multi-hot [n, C]: share of the labelled rows that have each label."""
        mask = label_mask(y, len(self.share))
        if mask.any():
            self.share.copy_(mask[mask.any(1)].double().mean(0))

    @torch.no_grad()
    def forward(self, distances: Tensor) -> Tensor:
        """Labels, bool [n, C], of the teacher's distances [n, C]; also moves θ, over the rows of all processes."""
        distances = full_precision(distances)
        count, mean = _means(distances)
        if count:
            deviation = (_means(distances.square())[1] - mean.square()).clamp(min=0).sqrt()
            self.threshold.copy_(torch.where(self.started, self.threshold, mean))
            self.spread.copy_(torch.where(self.started, self.spread.lerp(deviation, 1 - MEAN_DECAY), deviation))
            self.started.fill_(True)
            _, near = _means((distances < self.threshold).to(distances.dtype))
            self.threshold += QUANTILE_RATE * self.spread * (self.certain * self.share - near)
        return distances < self.threshold


def _means(values: Tensor) -> tuple[int, Tensor]:
    """Number of rows in all processes, and the mean over them of ``values`` [n, C]."""
    sums = values.sum(0)
    count = sums.new_tensor(float(len(values)))
    if dist.is_initialized():
        dist.all_reduce(sums)
        dist.all_reduce(count)
    return int(count), sums / count.clamp(min=1)
