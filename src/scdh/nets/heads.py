"""What stands on top of the trunk, initialised as in the paper: heads N(0, 0.01) with bias 0, centres N(0, 0.5)."""

import torch
from torch import Tensor, nn


def linear_head(width: int, outputs: int, std: float = 0.01) -> nn.Linear:
    """A linear layer without activation: the hash layer (r outputs) or fc8 (C outputs)."""
    layer = nn.Linear(width, outputs)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


def centres(num_classes: int, bits: int, std: float = 0.5) -> Tensor:
    """Semantic cluster centres, [C, r]. The larger deviation keeps their norms away from 0 at the start."""
    return torch.randn(num_classes, bits) * std
