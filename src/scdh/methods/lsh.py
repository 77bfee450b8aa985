"""LSH: signs of random projections; a baseline that learns nothing."""

import numpy as np

from scdh.methods.base import About, Method, Settings
from scdh.nets.heads import ProjectionHead
from scdh.nets.network import Network


class LshSettings(Settings):
    """Nothing to set: the seed of the run draws the projections."""


class Lsh(Method):
    about = About(
        title="LSH",
        kind="data-independent",
        year=2002,
        reference="Charikar, Similarity estimation techniques from rounding algorithms, STOC 2002",
        cost="none",
        fidelity="faithful",
        differs="the mean of the training rows is taken off first, which the paper does not do",
        use_when="there is nothing to learn from, or a comparison needs a lower bound",
    )
    Settings = LshSettings
    learns_by_gradient = False
    needs_labels = False

    def build(self, net: Network[ProjectionHead]) -> None:
        net.head = ProjectionHead(net.width, net.bits)

    def fit(self, net: Network[ProjectionHead], features: np.ndarray, labels: np.ndarray, seed: int) -> None:
        """b = sign(W (x − mean)), W ~ N(0, 1). Only the mean is taken from the data: without it most bits of
        non-negative features would be constant, which would make the baseline too easy to beat.
        """
        projection = np.random.default_rng(seed).normal(size=(features.shape[1], net.bits)).astype(np.float32)
        net.head.write(features.mean(0), projection)
