"""A sample of the classes that stands for all of them in a softmax (idea: Partial FC, An et al., CVPR 2022).

    log Σ_j e^{x_j}  ≈  log [ Σ_{j∈P} e^{x_j} + Σ_{j∈N} e^{x_j + log w} ],     w = (C − |P|) / |N|

P are the classes of the batch, N is a uniform sample of the others. Given |N|, the sum in brackets has the expectation
Σ_j e^{x_j} for any scores x; its logarithm is smaller by about half of the sum's relative variance, O(1/|N|). § Partial
FC has no weight w: its softmax is over fewer classes.
"""

import math

import torch
from torch import Tensor


def sample_classes(y: Tensor, num_classes: int, draws: int) -> tuple[Tensor, Tensor, Tensor]:
    """Classes P ∪ N for the labels of a batch. Time and memory are O(draws log draws), whatever C is.

    N is what remains of ``draws`` draws with replacement without repetitions and without P: a uniform sample of the
    classes outside P of a size that varies a little.

    Args:
        y: int64 [B], labels from 0 to C − 1, or −1 for no label.
        num_classes: C.
        draws: C or more: all classes are taken.

    Returns:
        The classes in order, int64 [S]; the position of each label among them, int64 [B] with −1 for no label; and what
        is added to the scores of each class, float [S]: log w, or 0 for classes of the batch.
    """
    own = y[y >= 0].unique()
    if draws >= num_classes:
        classes = torch.arange(num_classes, device=y.device)
    else:
        classes = torch.cat([own, torch.randint(num_classes, (draws,), device=y.device)]).unique()
    weight = (num_classes - len(own)) / max(len(classes) - len(own), 1)
    log_weights = torch.where(torch.isin(classes, own), 0.0, math.log(max(weight, 1.0)))
    positions = torch.where(y >= 0, torch.searchsorted(classes, y.contiguous()), y)
    return classes, positions, log_weights
