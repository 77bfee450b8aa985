"""Fixed target codes, one per class, far from each other (CSQ); they do not learn."""

import warnings

import torch
from torch import Tensor

from scdh.losses.labels import label_mask

DRAWS = 20  # sets of random centres to choose from
MOST_COMPARED = 2048  # classes; comparing all pairs of more centres would take too long


def hash_centres(num_classes: int, bits: int) -> Tensor:
    """±1 [C, r]: rows of a Hadamard matrix H and of −H where they suffice (r a power of two, C ≤ 2r), which differ in
    half of the bits or in all; else random codes with as many ones as minus ones.
    """
    if bits & (bits - 1) == 0 and num_classes <= 2 * bits:
        matrix = torch.ones(1, 1)
        while len(matrix) < bits:  # Sylvester's construction
            matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
        return torch.cat([matrix, -matrix])[:num_classes]
    # Random codes of few bits may be equal, which would merge two classes: of several sets the one is taken whose
    # nearest two centres are farthest apart.
    best, farthest = _balanced(num_classes, bits), -1.0
    if 1 < num_classes <= MOST_COMPARED:
        for _ in range(DRAWS):
            drawn = _balanced(num_classes, bits)
            products = drawn @ drawn.T - 2 * bits * torch.eye(num_classes)
            nearest = (bits - float(products.max())) / 2
            if nearest > farthest:
                best, farthest = drawn, nearest
        if farthest == 0:
            warnings.warn(f"Some of the {num_classes} classes share a centre: {bits} bits are too few.", stacklevel=2)
    return best


def _balanced(count: int, bits: int) -> Tensor:
    """Half of the bits of each row are 1; with an odd number of bits one more or one less, at random."""
    ones = torch.full((count, 1), bits // 2) + torch.randint(0, 1 + bits % 2, (count, 1))
    ranks = torch.rand(count, bits).argsort(1).argsort(1)
    return torch.where(ranks < ones, 1.0, -1.0)


def voted_targets(y: Tensor, centres: Tensor, ties: Tensor) -> Tensor:
    """±1 [B, r]: the centre of the label; with several labels, each bit is that of most of their centres. Where as
    many centres have +1 as −1 (and for rows without a label, whose targets are not used) it is the bit of ``ties`` [r].
    """
    with torch.autocast(centres.device.type, enabled=False):
        votes = label_mask(y, len(centres)).to(centres.dtype) @ centres
        return torch.where(votes == 0, ties, votes.sign())
