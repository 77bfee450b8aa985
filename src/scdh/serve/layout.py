"""Place codes on a plane, near codes close to each other, for the map of the page.

All pairs of 100,000 codes are too many for t-SNE, so it arranges a sample, the landmarks, and every other code goes
between the landmarks that are nearest to it. Items with equal codes would lie on one spot; they fill a disc around it.
"""

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes

LANDMARKS = 1000
NEAREST = 6  # landmarks that decide the place of a code
PERPLEXITY = 30
# Part of the plane that discs would cover if none overlapped: little enough to keep groups apart.
COVERED = 0.18
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
ROWS = 4096  # codes that are compared with the landmarks at once


def place(codes: Codes, seed: int = 0) -> NDArray[np.float32]:
    """Places in the unit square.

    Args:
        codes: n codes.
        seed: decides which codes are landmarks.

    Returns:
        float32 [n, 2].
    """
    if not len(codes):
        return np.zeros((0, 2), np.float32)
    packed, inverse, counts = np.unique(codes.packed, axis=0, return_inverse=True, return_counts=True)
    distinct, inverse = Codes(packed, codes.bits), inverse.ravel()
    chosen = np.sort(np.random.default_rng(seed).permutation(len(distinct))[:LANDMARKS])
    landmarks = distinct[chosen].signs().astype(np.float32)
    centres = _between(distinct, landmarks, _arrange(landmarks, seed))
    low, extent = centres.min(0), max(float(np.ptp(centres, axis=0).max()), 1e-6)
    centres = (centres - low) / extent
    places = centres[inverse] + _discs(inverse, counts)
    low, extent = places.min(0), max(float(np.ptp(places, axis=0).max()), 1e-6)
    margins = (1 - np.ptp(places, axis=0) / extent) / 2  # the shorter side in the middle
    return ((places - low) / extent + margins).astype(np.float32)


def _arrange(landmarks: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Places of landmarks, float32 [m, 2]: t-SNE of Hamming distances that starts from the principal components."""
    centred = landmarks - landmarks.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    start = np.zeros((len(landmarks), 2), np.float32)
    flat = centred @ axes[:2].T
    start[:, : flat.shape[1]] = flat
    if len(landmarks) < 8:  # too few for neighbourhoods
        return start
    from sklearn.manifold import TSNE  # takes a second to import

    # The scale that t-SNE expects of a start.
    start *= 1e-4 / max(float(start[:, 0].std()), 1e-12)
    distances = np.maximum(0, (landmarks.shape[1] - landmarks @ landmarks.T) / 2)
    np.fill_diagonal(distances, 0)
    perplexity = min(PERPLEXITY, (len(landmarks) - 1) / 3)
    # It squares distances, so their roots are given: a Hamming distance is a squared length between signs.
    made = TSNE(perplexity=perplexity, metric="precomputed", init=start, max_iter=500, random_state=seed)
    return made.fit_transform(np.sqrt(distances)).astype(np.float32)


def _between(codes: Codes, landmarks: NDArray[np.float32], places: NDArray[np.float32]) -> NDArray[np.float32]:
    """The place of each code: its own if it is a landmark, else the mean of the nearest ones, where each bit further
    halves the weight."""
    nearest = min(NEAREST, len(landmarks))
    centres = np.empty((len(codes), 2), np.float32)
    for start in range(0, len(codes), ROWS):
        signs = codes[start : start + ROWS].signs().astype(np.float32)
        distances = (codes.bits - signs @ landmarks.T) / 2
        columns = np.argpartition(distances, nearest - 1, axis=1)[:, :nearest]
        near = np.take_along_axis(distances, columns, axis=1)
        nearest_of_all = near.min(1, keepdims=True)
        weights = np.exp2(-np.minimum(near - nearest_of_all, 60))
        weights[(nearest_of_all == 0) & (near > 0)] = 0
        weights /= weights.sum(1, keepdims=True)
        centres[start : start + ROWS] = np.einsum("nk,nkd->nd", weights, places[columns])
    return centres


def _discs(inverse: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The offset of each item from the place of its code: the items of a code fill a disc evenly, like seeds of a
    sunflower.
    """
    order = np.argsort(inverse, kind="stable")
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(inverse), np.int64)
    ranks[order] = np.arange(len(inverse)) - np.repeat(starts, counts)
    radius = np.sqrt(COVERED * ranks / (np.pi * len(inverse)))
    return radius[:, None] * np.stack([np.cos(ranks * GOLDEN_ANGLE), np.sin(ranks * GOLDEN_ANGLE)], axis=1)
