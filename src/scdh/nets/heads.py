"""Layers on top of the trunk, initialised as in the paper: linear layers N(0, 0.01) with bias 0, centres N(0, 0.5).

A method has one head module: ``forward`` maps what the head reads [B, width] to the hash outputs u [B, r]; further
layers of the method (a classifier, centres) are attributes of the same module, so they learn, move and are saved with
it. A head may list parameters without weight decay (``no_weight_decay``).
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn


def linear_head(width: int, outputs: int, std: float = 0.01) -> nn.Linear:
    """A linear layer without activation: the hash layer (r outputs) or fc8 (C outputs)."""
    layer = nn.Linear(width, outputs)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


def random_centres(num_classes: int, bits: int, std: float = 0.5) -> nn.Parameter:
    """One learned vector per class, [C, r]. The larger deviation keeps their norms away from 0 at the start."""
    return nn.Parameter(torch.randn(num_classes, bits).mul_(std))


class Head(nn.Module):
    """Base of all heads; ``forward`` gives u [B, r]."""

    no_weight_decay: ClassVar[frozenset[str]] = frozenset()
    row_parameters: frozenset[str] = frozenset()  # names of those whose gradient is sparse: some rows at each step


class HashHead(Head):
    """The hash layer alone: u = W x + b."""

    def __init__(self, width: int, bits: int) -> None:
        super().__init__()
        self.hash_layer: nn.Module = linear_head(width, bits)

    def forward(self, x: Tensor) -> Tensor:
        return self.hash_layer(x)


class NormalisedHead(Head):
    """The hash layer and batch-norm: every bit is as often 1 as 0, unless it learns otherwise."""

    def __init__(self, width: int, bits: int) -> None:
        super().__init__()
        layer = nn.Linear(width, bits, bias=False)  # a bias would be removed again with the mean
        nn.init.normal_(layer.weight, std=0.01)
        self.hash_layer = nn.Sequential(layer, BatchNorm(bits))

    def forward(self, x: Tensor) -> Tensor:
        return self.hash_layer(x)


class BatchNorm(nn.BatchNorm1d):
    """Also accepts a batch of one row, which has no deviation: the running statistics are used."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) < 2:
            mean, variance = self.running_mean, self.running_var
            return nn.functional.batch_norm(x, mean, variance, self.weight, self.bias, training=False, eps=self.eps)
        return super().forward(x)


class ProjectionHead(Head):
    """u = (x − mean) W for methods that are fitted instead of trained; both are buffers, so nothing learns. W is kept
    in double precision, in which a rotation is fitted: rounding could flip bits near 0.
    """

    mean: Tensor
    projection: Tensor

    def __init__(self, width: int, bits: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("projection", torch.zeros(width, bits, dtype=torch.float64))

    def write(self, mean: np.ndarray, projection: np.ndarray) -> None:
        """Store the fitted ``mean`` [d] and ``projection`` [d, r]."""
        self.mean.copy_(torch.from_numpy(np.ascontiguousarray(mean)))
        self.projection.copy_(torch.from_numpy(np.ascontiguousarray(projection)))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean).to(self.projection.dtype) @ self.projection


class ClassifiedHead(HashHead):
    """The hash layer, and a linear classifier that reads its outputs, or what the method makes of them.

    Args:
        width: of what the head reads.
        bits: r.
        num_classes: C.
        std: deviation of the classifier's first weights.
    """

    def __init__(self, width: int, bits: int, num_classes: int, std: float = 0.01) -> None:
        super().__init__(width, bits)
        self.classifier = linear_head(bits, num_classes, std)
