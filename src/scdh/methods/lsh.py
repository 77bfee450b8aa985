"""LSH: signs of random projections, the floor that needs no learning at all."""

import numpy as np

from scdh.codes import Codes
from scdh.config import Settings
from scdh.methods.base import About, Method


class LshSettings(Settings):
    """Nothing to set: the seed of the run draws the projections."""


class Lsh(Method):
    about = About(
        title="LSH",
        kind="data-independent",
        year=2002,
        reference="Charikar, Similarity estimation techniques from rounding algorithms, STOC 2002",
        cost="none",
        faithful="faithful",
    )
    Settings = LshSettings
    learns_by_gradient = False

    def fit(self, features: np.ndarray, labels: np.ndarray | None, seed: int) -> "Lsh":
        """b = sign(W (x − mean)), W ~ N(0, 1). Centring is the one thing taken from the data: without it most bits of
        non-negative features would be constant, which would make the floor too easy to beat."""
        self.mean = features.mean(0)
        self.projections = np.random.default_rng(seed).normal(size=(features.shape[1], self.bits)).astype(np.float32)
        return self

    def encode(self, features: np.ndarray) -> Codes:
        return Codes.from_signs((features - self.mean) @ self.projections)
