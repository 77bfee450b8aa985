"""The consistency loss trains the student only."""

import pytest
import torch

from scdh import losses


def test_consistency_gives_no_gradient_to_the_teacher():
    student = torch.randn(3, 4, requires_grad=True)
    teacher = torch.randn(3, 4, requires_grad=True)
    value = losses.consistency_loss(student, teacher)
    expected = ((student.softmax(1) - teacher.softmax(1)) ** 2).sum() / 12
    value.backward()
    assert value.item() == pytest.approx(expected.item())
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0
