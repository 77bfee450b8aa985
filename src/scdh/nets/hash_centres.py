"""Fixed target codes, one per class, far from each other (CSQ, DPN, OrthoHash, MDSH); they do not learn."""

import math
import warnings

import torch
from torch import Tensor

from scdh.losses.label_masks import label_mask

DRAWS = 20  # sets of random centres to choose from
MOST_COMPARED = 2048  # classes; for more, comparing all pairs of centres would take too long
SWEEPS = 100  # over all classes; more than a few dozen are hardly ever needed
SPREAD = 1e-3  # weight of the mean distance, relative to that of distances that are too small


def hash_centres(num_classes: int, bits: int, drawn: bool = True) -> Tensor:
    """±1 [C, r]: rows of a Hadamard matrix H and of −H where they suffice (r a power of two, C ≤ 2r), which differ in
    half of the bits or in all; else random codes with equally many ones and minus ones.

    Args:
        num_classes: C.
        bits: r.
        drawn: rows are drawn by torch's generator, those of equal bits last; else they are the first ones. In the
            first few rows, many bits are copies of each other: with 10 rows of 32 bits, only 16 differ.
    """
    if bits & (bits - 1) == 0 and num_classes <= 2 * bits:
        rows = _hadamard(bits)
        return (_draw_rows(rows, num_classes) if drawn else torch.cat([rows, -rows]))[:num_classes]
    # Random codes of few bits may be equal, which would merge two classes: of several sets the one is taken whose
    # nearest two centres are farthest apart.
    best, farthest = balanced_codes(num_classes, bits), -1.0
    if 1 < num_classes <= MOST_COMPARED:
        for _ in range(DRAWS):
            codes = balanced_codes(num_classes, bits)
            nearest = nearest_distance(codes)
            if nearest > farthest:
                best, farthest = codes, nearest
        if farthest == 0:
            warnings.warn(f"Some of the {num_classes} classes share a centre: {bits} bits are too few.", stacklevel=2)
    return best


def _hadamard(bits: int) -> Tensor:
    matrix = torch.ones(1, 1)
    while len(matrix) < bits:  # Sylvester's construction
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def _draw_rows(rows: Tensor, count: int) -> Tensor:
    """Rows in random order; the two rows with equal bits come last, because such a target would set all bits of a class
    alike.
    """
    if count < len(rows):
        return rows[1 + torch.randperm(len(rows) - 1)]
    mixed = torch.cat([rows[1:], -rows[1:]])
    return torch.cat([mixed[torch.randperm(len(mixed))], rows[:1], -rows[:1]])


def balanced_codes(count: int, bits: int) -> Tensor:
    """Random ±1 [count, r]: half of the bits of each row are 1, or one more or less if their number is odd."""
    ones = torch.full((count, 1), bits // 2) + torch.randint(0, 1 + bits % 2, (count, 1))
    ranks = torch.rand(count, bits).argsort(1).argsort(1)
    return torch.where(ranks < ones, 1.0, -1.0)


def random_codes(count: int, bits: int) -> Tensor:
    """±1 [count, r], each bit by a coin; redrawn a few times if two codes are equal."""
    codes = torch.randint(0, 2, (count, bits)) * 2.0 - 1
    for _ in range(DRAWS if 1 < count <= MOST_COMPARED else 0):
        if nearest_distance(codes) > 0:
            break
        codes = torch.randint(0, 2, (count, bits)) * 2.0 - 1
    return codes


def nearest_distance(codes: Tensor) -> float:
    """Hamming distance of the two nearest of at least two codes ±1 [C, r]."""
    bits = codes.shape[1]
    products = codes @ codes.T - 2 * bits * torch.eye(len(codes))
    return (bits - float(products.max())) / 2


def voted_targets(y: Tensor, centres: Tensor, ties: Tensor) -> Tensor:
    """±1 [B, r]: the centre of the label; with several labels, each bit is that of most of their centres. If equally
    many centres have +1 and −1 (and for rows without a label, whose targets are not used) it is the bit of ``ties``
    [r].
    """
    with torch.autocast(centres.device.type, enabled=False):
        votes = label_mask(y, len(centres)).to(centres.dtype) @ centres
        return torch.where(votes == 0, ties, votes.sign())


def separating_distance(num_classes: int, bits: int) -> int:
    """The smallest d with Σ_{j<d} (r over j) ≥ 2^r / C: C codes of r bits with about this distance exist (Gilbert and
    Varshamov), and it is the authors' choice.
    """
    total, distance = 0, 0
    while total * num_classes < 2**bits:
        total += math.comb(bits, distance)
        distance += 1
    return distance


def separated_centres(num_classes: int, bits: int) -> Tensor:
    """±1 [C, r] of which any two differ in at least :func:`separating_distance` bits, if the search finds them.

    It starts from :func:`hash_centres`, whose Hadamard rows are already that far apart, and then flips, class by class,
    the bit that lowers Σ max(0, d − D)² most, D being the distance to another centre. A larger mean distance is
    preferred among equals. § The authors solve the same problem with ADMM over relaxed bits.
    """
    codes, wanted = hash_centres(num_classes, bits), separating_distance(num_classes, bits)
    if not 1 < num_classes <= MOST_COMPARED:
        return codes
    for _ in range(SWEEPS):
        changed = False
        for row in range(num_classes):
            distances = (bits - codes @ codes[row]) / 2
            is_equal = codes == codes[row]
            further, nearer = _penalty(distances + 1, wanted), _penalty(distances - 1, wanted)
            further[row] = nearer[row] = 0
            present = _penalty(distances, wanted)
            present[row] = 0
            flipped = further @ is_equal.float() + nearer @ (~is_equal).float()  # [r]: the penalty after each flip
            best = int(flipped.argmin())
            if float(flipped[best]) < float(present.sum()) - SPREAD / 2:
                codes[row, best] *= -1
                changed = True
        if not changed:
            break
    return codes


def _penalty(distances: Tensor, wanted: int) -> Tensor:
    return (wanted - distances).clamp(min=0).square() - SPREAD * distances
