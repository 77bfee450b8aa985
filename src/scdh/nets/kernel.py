"""A head of radial basis functions around anchors, for methods that are fitted in a kernel space (SDH)."""

import numpy as np
import torch
from torch import Tensor

from scdh.nets.heads import Head

PIECE = 1024  # rows whose kernel values are computed at once


class KernelHead(Head):
    """u = P^T φ(x), φ(x) = (exp(−‖x̂ − a_1‖² / 2σ²), …, exp(−‖x̂ − a_m‖² / 2σ²), 1); all of it buffers.

    x̂ is x minus the mean, of length 1. Where there are fewer anchors than places, P is 0 for the places left.

    Args:
        width: of x.
        bits: r.
        anchors: m.
        sigma: σ.
    """

    mean: Tensor
    anchors: Tensor
    projection: Tensor

    def __init__(self, width: int, bits: int, anchors: int, sigma: float) -> None:
        super().__init__()
        self.sigma = sigma
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("anchors", torch.zeros(anchors, width, dtype=torch.float64))
        self.register_buffer("projection", torch.zeros(anchors + 1, bits, dtype=torch.float64))

    @torch.no_grad()
    def place(self, mean: np.ndarray, anchors: np.ndarray) -> None:
        """Take the mean [d] and the anchors, at most m rows [·, d] of the data."""
        self.mean.copy_(torch.from_numpy(mean))
        self.anchors.zero_()
        self.anchors[: len(anchors)] = self._direction(torch.from_numpy(anchors).to(self.anchors.device))

    def write(self, projection: np.ndarray) -> None:
        """Take P [m + 1, r], whose last row belongs to the constant."""
        self.projection.copy_(torch.from_numpy(projection))

    @torch.no_grad()
    def values(self, rows: np.ndarray) -> np.ndarray:
        """φ of rows [n, d]: float64 [n, m + 1]."""
        pieces = torch.from_numpy(rows).split(PIECE)
        return np.concatenate([self._basis(piece.to(self.anchors.device)).cpu().numpy() for piece in pieces])

    def forward(self, x: Tensor) -> Tensor:
        return self._basis(x) @ self.projection

    def _direction(self, x: Tensor) -> Tensor:
        x = (x - self.mean).to(self.anchors.dtype)
        return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)

    def _basis(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            x = self._direction(x)
            squared = x.square().sum(1, keepdim=True) + self.anchors.square().sum(1) - 2 * x @ self.anchors.T
            radial = torch.exp(-squared.clamp(min=0) / (2 * self.sigma**2))
            return torch.cat([radial, torch.ones_like(radial[:, :1])], 1)
