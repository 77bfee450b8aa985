"""A second network whose weights are the moving average of the first: a teacher, or just smoother weights."""

import copy

import torch

from scdh.nets.network import Network


class MovingAverage:
    """θ' ← a_t θ' + (1 − a_t) θ with a_t = min(1 − 1/(t+1), decay), so that the start is forgotten quickly.

    Buffers (batch-norm statistics) are treated in one of two ways. A network that only averages never sees data, so the
    first network's statistics are copied: they are moving averages already, of what the weights saw last. A teacher
    sees a batch of its own at every step (``own_passes``): its batch-norms normalise by that batch, as its student's
    do, and its running statistics come from its own passes. Copied ones would describe the activations of the student's
    weights, not those of the averaged weights.
    """

    def __init__(self, net: Network, decay: float, *, own_passes: bool = False) -> None:
        # Parameters whose steps touch some rows only are shared: an average would touch all rows at every step.
        shared = map(net.head.get_parameter, net.head.row_parameters)
        self.net = copy.deepcopy(net, {id(parameter): parameter for parameter in shared})
        for average, weight in zip(self.net.parameters(), net.parameters(), strict=True):
            if average is not weight:
                average.requires_grad_(False)
        self.decay = decay
        self.steps = 0
        self.own_passes = own_passes
        self.set_modes()

    def set_modes(self) -> None:
        """Before batches are passed: dropout is off, and only batch-norm uses the statistics of the batch.

        § Mean Teacher uses dropout in its teacher too, which makes the student's target noisy: on
        features of CIFAR-10 (5,000 labels, 32 bits, units dropped with 0.5) validation MAP was 0.625 with, 0.628
        without. The teacher's own view of each item is perturbation enough.
        """
        self.net.eval()
        if self.own_passes:
            for layer in self.net.learning_batch_norms(self.net):
                layer.train()

    @torch.no_grad()
    def update(self, net: Network) -> None:
        self.steps += 1
        keep = min(1 - 1 / (self.steps + 1), self.decay)
        for average, weight in zip(self.net.parameters(), net.parameters(), strict=True):
            if average is not weight:
                average.lerp_(weight, 1 - keep)
        if not self.own_passes:
            for own, other in zip(self.net.buffers(), net.buffers(), strict=True):
                own.copy_(other)
