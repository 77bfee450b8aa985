"""SDH: Supervised Discrete Hashing, codes that a linear classifier reads best, and a kernel function that gives them.

    min  ‖Y − B W‖² + λ ‖W‖² + ν ‖B − Φ P‖²,     B ∈ {−1, 1}^{n×r},   code = sgn(P^T φ(x))

φ are radial basis functions around anchors, which are training rows drawn by seed. In turns: B bit by bit with W and P
fixed (``coordinate_descent``, which starts from the B before), then W and P by ridge regression. It is fitted to the
features as they are: no network learns. Steps and values are those of the authors' demonstration.
"""

import numpy as np
import torch
from pydantic import Field

from scdh.errors import DataError
from scdh.label_arrays import is_labelled
from scdh.methods.base import About, Method, Settings
from scdh.nets.discrete import coordinate_descent, ridge_weights
from scdh.nets.kernel import KernelHead
from scdh.nets.network import Network


class SdhSettings(Settings):
    """Defaults are those of the authors' demonstration on CIFAR-10."""

    anchors: int = Field(1000, ge=1, description="m, number of radial basis functions; fewer where rows are fewer")
    # § The authors give it for "normalized data"; here rows minus their mean, of length 1.
    sigma: float = Field(0.4, gt=0, description="σ, width of the basis functions; data have length 1")
    lam: float = Field(1.0, gt=0, description="λ, ridge of the classifier W")
    nu: float = Field(1e-5, ge=0, description="ν, weight of B near Φ P")
    ridge: float = Field(1e-2, gt=0, description="ridge of P; not in the paper, but in the authors' code")
    iterations: int = Field(5, ge=1, description="turns of B, W and P")
    sweeps: int = Field(10, ge=1, description="most passes over the bits of B in one turn")
    fitted_rows: int = Field(
        100_000, ge=1, description="rows it is fitted to at most, drawn by seed; 1000 anchors take 8 KB per row"
    )


class Sdh(Method):
    about = About(
        title="SDH",
        kind="discrete, kernel",
        year=2015,
        reference="Shen et al., Supervised Discrete Hashing, CVPR 2015",
        cost="O(n·m²), once",
        fidelity="faithful",
        differs="W is fitted with the squared loss; the paper's hinge is not offered",
        use_when="rows have labels, features are good already, and training must take seconds",
    )
    Settings = SdhSettings
    settings: SdhSettings
    tuned_settings = {"sigma": (0.2, 0.4, 0.8), "nu": (1e-5, 1e-3, 1e-1)}  # noqa: RUF012
    learns_by_gradient = False

    def build(self, net: Network[KernelHead]) -> None:
        net.head = KernelHead(net.width, net.bits, self.settings.anchors, self.settings.sigma)

    def fit(self, net: Network[KernelHead], features: np.ndarray, labels: np.ndarray, seed: int) -> None:
        s, rng = self.settings, np.random.default_rng(seed)
        rows = np.flatnonzero(is_labelled(labels))
        if not len(rows):
            raise DataError("SDH learns from labels, but no training row has one.")
        if len(rows) > s.fitted_rows:
            rows = np.sort(rng.choice(rows, s.fitted_rows, replace=False))
        anchors = np.sort(rng.choice(rows, min(s.anchors, len(rows)), replace=False))
        # In double precision: a mean of float32 rows depends on the order of summation.
        net.head.place(features[rows].mean(0, dtype=np.float64).astype(np.float32), features[anchors])
        values = net.head.values(features[rows])
        used = np.append(np.arange(len(anchors)), values.shape[1] - 1)  # without places that have no anchor
        basis, classes = torch.from_numpy(values[:, used]), torch.from_numpy(self._targets(labels[rows]))
        codes = torch.from_numpy(np.where(rng.normal(size=(len(rows), net.bits)) >= 0, 1.0, -1.0))
        weights, functions = ridge_weights(codes, classes, s.lam), ridge_weights(basis, codes, s.ridge)
        for _ in range(s.iterations):
            linear = classes @ weights.T + s.nu * basis @ functions
            codes = coordinate_descent(linear, weights @ weights.T, s.sweeps, start=codes)
            weights, functions = ridge_weights(codes, classes, s.lam), ridge_weights(basis, codes, s.ridge)
        projection = np.zeros((values.shape[1], net.bits))
        projection[used] = functions.numpy()
        net.head.write(projection)

    def _targets(self, labels: np.ndarray) -> np.ndarray:
        """Y [n, C] of 0 and 1."""
        return (labels > 0 if labels.ndim == 2 else labels[:, None] == np.arange(self.num_classes)).astype(np.float64)
