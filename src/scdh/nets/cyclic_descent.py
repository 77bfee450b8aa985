"""Codes that fit a linear classifier best, found bit by bit (discrete cyclic coordinate descent, of SDH)."""

import numpy as np


def descend_cyclically(linear: np.ndarray, weights: np.ndarray, sweeps: int) -> np.ndarray:
    """min over b ∈ {−1, 1}^r of ‖W^T b‖² − 2 q · b for each row: b_k = sgn(q_k − w_k · Σ_{j≠k} b_j w_j), bit after bit.

    With q = W y + ν f it is ‖y − W^T b‖² + ν ‖b − f‖² up to a constant.

    Args:
        linear: q, float [n, r].
        weights: W, float [r, C].
        sweeps: most passes over all bits; it ends earlier when a pass changes nothing.

    Returns:
        float [n, r] of ±1, 1 where the value is 0. The first pass starts from b = 0.
    """
    codes = np.zeros_like(linear)
    products = weights @ weights.T
    for _ in range(sweeps):
        before = codes.copy()
        for k in range(codes.shape[1]):
            others = codes @ products[:, k] - codes[:, k] * products[k, k]
            codes[:, k] = np.where(linear[:, k] - others >= 0, 1.0, -1.0)
        if np.array_equal(codes, before):
            break
    return codes
