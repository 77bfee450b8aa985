"""PCAH: signs of the principal components; a baseline that learns without labels."""

import numpy as np

from scdh.errors import ConfigError
from scdh.methods.base import About, Method, Settings
from scdh.nets.heads import ProjectionHead
from scdh.nets.network import Network


class PcaSettings(Settings):
    """Nothing to set: the components depend on the training rows alone."""


class Pca(Method):
    about = About(
        title="PCAH",
        kind="unsupervised",
        year=2006,
        reference="Wang et al., AnnoSearch: Image auto-annotation by search, CVPR 2006",
        cost="PCA",
        fidelity="variant",
        differs="as the ITQ paper describes it (PCA-Direct)",
        use_when="there are no labels and ITQ needs a baseline",
    )
    Settings = PcaSettings
    learns_by_gradient = False
    needs_labels = False

    def build(self, net: Network[ProjectionHead]) -> None:
        net.head = ProjectionHead(net.width, net.bits)

    def fit(self, net: Network[ProjectionHead], features: np.ndarray, labels: np.ndarray, seed: int) -> None:
        """b = sign(W^T (x − mean)), W the first r principal axes, largest variance first."""
        if net.bits > features.shape[1]:
            raise ConfigError(
                f"PCAH gives at most {features.shape[1]} bits for features of that width, not {net.bits}."
            )
        mean = features.mean(0)
        centred = features - mean
        _, axes = np.linalg.eigh(centred.T @ centred)  # in ascending order, so the principal axes are the last
        principal = axes[:, : -net.bits - 1 : -1]
        # An axis has two directions; the one whose largest coordinate is positive makes the same code on every machine.
        largest = np.abs(principal).argmax(axis=0)
        signs = np.where(principal[largest, np.arange(net.bits)] < 0, -1, 1).astype(principal.dtype)
        net.head.write(mean, principal * signs)
