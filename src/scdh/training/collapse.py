"""Notice when codes stop meaning anything, and say what helps."""

import warnings

import torch
from torch import Tensor

from scdh.nets.network import Network

WITH_CENTRES = "set method.warm_up_epochs=5 with method.warm_up_norm=8, or lower train.lr_head or method.lam"
WITHOUT = "lower train.lr_head, or train longer"


class CollapseWarning(UserWarning):
    """Centres or codes are falling together."""


PATIENCE = 3  # looks


class CollapseWatch:
    """Warns once when centres shrink to 0 (paper, "Optimization") or every item gets the same code.

    Codes of an untrained network are often all equal, since fc7 is positive and the hash layer small: that is no
    collapse unless they have differed before, or still do not after ``PATIENCE`` looks.
    """

    def __init__(self, net: Network) -> None:
        self.start_norm = self._norm(net)
        self.warned, self.differed, self.equal_looks = False, False, 0

    @staticmethod
    def _norm(net: Network) -> float | None:
        return None if net.centres is None else float(net.centres.detach().norm(dim=1).mean())

    def look(self, net: Network, u: Tensor, labels: Tensor) -> str | None:
        """``u`` and ``labels`` of some batch; returns the sentence it warned with, if it did."""
        if self.warned:
            return None
        norm = self._norm(net)
        sentence = None
        if norm is not None and self.start_norm is not None and norm < 0.1 * self.start_norm:
            sentence = f"The centres are collapsing: their mean norm fell from {self.start_norm:.2g} to {norm:.2g}"
        elif len(u) >= 8 and len(torch.unique(labels, dim=0)) > 1:
            equal = len(torch.unique(u >= 0, dim=0)) == 1
            self.differed, self.equal_looks = self.differed or not equal, self.equal_looks + equal
            if equal and (self.differed or self.equal_looks >= PATIENCE):
                sentence = f"All {len(u)} codes of the last batch are equal although their labels differ"
        if sentence is not None:
            self.warned = True
            sentence = f"{sentence}; {WITHOUT if net.centres is None else WITH_CENTRES}."
            warnings.warn(sentence, CollapseWarning, stacklevel=2)
        return sentence
