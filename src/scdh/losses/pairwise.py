"""Losses over pairs: s_ij = 1 where i and j share a label, else 0. Only pairs of two labelled rows count.

§ Both papers sum over pairs; a mean over them keeps the learning rate independent of the batch's and the data's size.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from scdh.losses.distances import euclidean_distances, full_precision
from scdh.losses.labels import both_labelled, mean_over_labelled, similar


def contrastive_loss(u: Tensor, y: Tensor, margin: float) -> Tensor:
    """DSH: s/2 d² + (1 − s)/2 max(m − d², 0), d_ij = |u_i − u_j|; mean over the batch's pairs i ≠ j.

    Hamming distance of ±1 codes is d²/4, so m = 2r asks for half of the bits to differ.
    """
    squared = euclidean_distances(u, u).square()
    values = torch.where(similar(y, y), squared, (margin - squared).clamp(min=0)) / 2
    others = ~torch.eye(len(u), dtype=torch.bool, device=u.device)
    return mean_over_labelled(values, both_labelled(y, y) & others)


def pair_likelihood_loss(u: Tensor, y: Tensor, stored: Tensor, stored_y: Tensor, seen: Tensor | None = None) -> Tensor:
    """DPSH: −[s θ − log(1 + e^θ)], θ_ij = u_i · v_j / 2; mean over pairs of a batch row and a stored output v_j.

    ``stored`` [n, r] holds outputs of earlier steps, which get no gradient; ``seen`` [n] says which rows it has.
    """
    with torch.autocast(u.device.type, enabled=False):
        u = full_precision(u)
        theta = u @ stored.detach().to(u.dtype).T / 2
        values = softplus(theta) - torch.where(similar(y, stored_y), theta, 0)
        valid = both_labelled(y, stored_y)
        return mean_over_labelled(values, valid if seen is None else valid & seen)
