"""Trunks that need no pretrained weights: a small convolutional net for tiny images, and an MLP for embeddings."""

import numpy as np
import torch
from torch import Tensor, nn

LEAST_SHARE = 0.05  # smallest deviation that is used, as a share of the root mean square of all deviations


class SmallConv(nn.Module):
    """Three stages of two 3×3 convolutions for images of 8 to 64 pixels, trained from scratch.

    Group normalisation instead of batch-norm: the same result for any batch and any number of processes.
    """

    def __init__(self, width: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage in range(3):
            for _ in range(2):
                layers += [nn.Conv2d(channels, width << stage, 3, padding=1, bias=False)]
                channels = width << stage
                layers += [nn.GroupNorm(8, channels), nn.ReLU(inplace=True)]
            if stage < 2:
                layers.append(nn.MaxPool2d(2))
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout))
        self.width = channels

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class FeatureTrunk(nn.Module):
    """Embeddings [B, d] → features: an MLP with ReLU and dropout after every layer, or the identity."""

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, hidden: list[int], dropout: float = 0.0, standardise: bool = False) -> None:
        super().__init__()
        self.standardise = standardise
        if standardise:
            self.register_buffer("mean", torch.zeros(inputs))
            self.register_buffer("scale", torch.ones(inputs))
        layers: list[nn.Module] = []
        width = inputs
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU(inplace=True), nn.Dropout(dropout)]
            width = size
        self.layers = nn.Sequential(*layers)
        self.width = width

    def measure(self, features: np.ndarray) -> None:
        """Take mean and deviation of the training embeddings, float [n, d]. A feature that hardly varies is not
        enlarged beyond ``LEAST_SHARE``: it would be noise as large as the signal.
        """
        if not self.standardise:
            return
        deviation = features.std(axis=0, dtype=np.float64)
        floor = LEAST_SHARE * np.sqrt(np.mean(deviation**2))
        self.mean.copy_(torch.from_numpy(features.mean(axis=0, dtype=np.float64)))
        self.scale.copy_(torch.from_numpy(1 / np.maximum(deviation, floor if floor > 0 else 1.0)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers((x - self.mean) * self.scale if self.standardise else x)
