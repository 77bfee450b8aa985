"""The consistency loss between student and teacher (paper, "The MT-SCDH Model")."""

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
