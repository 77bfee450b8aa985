"""Notice when codes stop meaning anything, and say what helps."""

import warnings

import numpy as np
import torch
from torch import Tensor

from scdh.methods.base import Method
from scdh.nets.network import Network

PATIENCE = 3  # checks
LEAST_STEPS = 50  # before codes are judged: an epoch of few rows is one or two steps


class CollapseWarning(UserWarning):
    """Centres or codes are becoming equal."""


class CollapseWatch:
    """Warns once when centres shrink to 0 (paper, "Optimization") or every item gets the same code.

    Codes of an untrained network are often all equal, since fc7 is positive and the hash layer small: that is no
    collapse unless they have differed before, or still do not after ``PATIENCE`` checks.

    Args:
        net: the network before training.
        method: says where the centres are, and what helps.
        steps_per_epoch: steps between two checks.
    """

    def __init__(self, net: Network, method: Method, steps_per_epoch: int = LEAST_STEPS) -> None:
        self.method = method
        self.steps_per_epoch, self.steps = steps_per_epoch, 0
        self.first_norm = self._centre_norm(net)
        self.has_warned, self.have_differed, self.equal_checks = False, False, 0

    def _centre_norm(self, net: Network) -> float | None:
        centres = self.method.centres(net)
        return None if centres is None else float(centres.detach().norm(dim=1).mean())

    def check(self, net: Network, u: Tensor, labels: Tensor) -> str | None:
        """Look at ``u`` [B, r] and labels of a batch; returns the sentence of the warning, if there is one."""
        if self.has_warned:
            return None
        self.steps += self.steps_per_epoch
        problem = self._centre_problem(net)
        if problem is None and self.steps >= LEAST_STEPS:
            problem = self._code_problem(net, u, labels)
        if problem is None:
            return None
        self.has_warned = True
        sentence = f"{problem}; {self.method.collapse_advice}."
        warnings.warn(sentence, CollapseWarning, stacklevel=2)
        return sentence

    def _centre_problem(self, net: Network) -> str | None:
        norm = self._centre_norm(net)
        if norm is None or self.first_norm is None or norm >= 0.1 * self.first_norm:
            return None
        return f"The centres are collapsing: their mean norm fell from {self.first_norm:.2g} to {norm:.2g}"

    def _code_problem(self, net: Network, u: Tensor, labels: Tensor) -> str | None:
        if len(u) < 8 or len(torch.unique(labels, dim=0)) == 1:
            return None
        codes = np.asarray(self.method.signs(net, u.detach().float().cpu().numpy())) >= 0
        are_equal = bool((codes == codes[0]).all())
        self.have_differed, self.equal_checks = self.have_differed or not are_equal, self.equal_checks + are_equal
        if not are_equal or not (self.have_differed or self.equal_checks >= PATIENCE):
            return None
        return f"All {len(u)} codes of the last batch are equal although their labels differ"
