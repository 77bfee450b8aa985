"""A second network whose weights are the moving average of the first."""

import copy

import torch

from scdh.nets.network import Network


class MovingAverage:
    """θ' ← a_t θ' + (1 − a_t) θ with a_t = min(1 − 1/(t+1), decay), so that the start is forgotten quickly.

    Buffers (batch-norm statistics) are copied: they are moving averages already, and of the data the weights saw last.
    """

    def __init__(self, net: Network, decay: float) -> None:
        self.net = copy.deepcopy(net).requires_grad_(False).eval()
        self.decay, self.steps = decay, 0

    @torch.no_grad()
    def update(self, net: Network) -> None:
        self.steps += 1
        keep = min(1 - 1 / (self.steps + 1), self.decay)
        for mine, theirs in zip(self.net.parameters(), net.parameters(), strict=True):
            mine.lerp_(theirs, 1 - keep)
        for kept, seen in zip(self.net.buffers(), net.buffers(), strict=True):
            kept.copy_(seen)
