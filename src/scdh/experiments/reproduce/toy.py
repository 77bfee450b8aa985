"""The toy example of the unary upper bound (paper, "Unary Upper Bound and Semantic Cluster Unary Loss").

Two Gaussian clusters of h in 48 dimensions, N(c_y, σI), whose centres are d apart; g(a, b) = [1 + a − b]_+. Losses are
divided by n·M_t, M_t = (n/C)²(C − 1), so that they are means over rows.

λ is estimated as (L_t / M_t − Σ_i l_c) / Σ_i |h_i − c_{y_i}|. § "The second term" of the derivation is read as
g(|h_i − c_y| + |h_j − c_y|, |h_i − c_k| − |h_k − c_k|), the relaxed triplet loss.
"""

from typing import Any

import numpy as np

from scdh.losses import triplet_ranking_loss, unary_upper_bound

DIMENSIONS = 48
ROWS = 60
MARGIN = 1.0
STEPS, SIDE = 25, 13
SIGMAS, DISTANCES = (1.0, 0.01), (0.5, 12.0)


def toy_example() -> dict[str, Any]:
    """Losses and λ along a path of falling σ and growing d, and λ over a grid of both."""
    path: dict[str, list[float]] = {"sigma": [], "d": [], "triplet": [], "relaxed": [], "bound": [], "lambda": []}
    for sigma, d in zip(np.geomspace(*SIGMAS, STEPS), np.linspace(*DISTANCES, STEPS), strict=True):
        values = toy_losses(float(sigma), float(d))
        for name, value in ({"sigma": float(sigma), "d": float(d)} | values).items():
            path[name].append(value)
    sigmas, distances = np.geomspace(SIGMAS[1], SIGMAS[0], SIDE), np.linspace(*DISTANCES, SIDE)
    lambdas = [[toy_losses(float(sigma), float(d))["lambda"] for d in distances] for sigma in sigmas]
    return {"path": path, "map": {"sigma": sigmas.tolist(), "d": distances.tolist(), "lambda": lambdas}}


def toy_losses(sigma: float, d: float, seed: int = 0) -> dict[str, float]:
    """Triplet loss, relaxed triplet loss and unary upper bound, each per row, and the estimated λ."""
    rng = np.random.default_rng(seed)
    labels = np.arange(ROWS) % 2
    centres = np.zeros((2, DIMENSIONS))
    centres[1, 0] = d
    h = centres[labels] + np.sqrt(sigma) * rng.normal(size=(ROWS, DIMENSIONS))
    scale = ROWS * (ROWS / 2) ** 2
    triplet = triplet_ranking_loss(h, labels, margin=MARGIN) / scale
    bound = unary_upper_bound(h, labels, centres, margin=MARGIN) / scale
    to_centres = np.linalg.norm(h[:, None] - centres[None], axis=2)
    own, other = to_centres[np.arange(ROWS), labels], to_centres[np.arange(ROWS), 1 - labels]
    l_c = float(np.maximum(0, MARGIN + own - other).mean())
    relaxed = 0.0
    for i in range(ROWS):
        same, rest = labels == labels[i], labels != labels[i]
        near, far = own[i] + own[same], other[i] - own[rest]
        relaxed += float(np.maximum(0, MARGIN + near[:, None] - far[None]).sum())
    return {
        "triplet": triplet,
        "relaxed": relaxed / scale,
        "bound": bound,
        "lambda": (triplet - l_c) / float(own.mean()),
    }
