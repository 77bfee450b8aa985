"""Losses between student and teacher (paper, "The MT-SCDH Model"), and targets from the teacher's outputs."""

import torch
from torch import Tensor

from scdh.losses.distances import full_precision, same_shape


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

    Unlike :func:`consistency_loss` it never gets smaller by becoming less certain than the targets, so it does not
    draw all outputs to one point.

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
