"""Target codes with a minimal distance that the Gilbert–Varshamov bound asks for (MDSH)."""

import math

from torch import Tensor

from scdh.nets.hash_centres import MOST_COMPARED, hash_centres

SWEEPS = 100  # over all classes; more than a few dozen are hardly ever needed
SPREAD = 1e-3  # weight of the mean distance beside distances that are too small


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
    """±1 [C, r] of which any two differ in at least :func:`separating_distance` bits, where the search finds them.

    It starts from :func:`hash_centres`, whose Hadamard rows are as far apart already, and then flips, class by class,
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
