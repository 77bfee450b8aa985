"""ITQ: PCA followed by the rotation that loses least when signs are taken; a baseline that learns without labels."""

import numpy as np
from pydantic import Field

from scdh.errors import ConfigError
from scdh.methods.base import About, Method, Settings
from scdh.nets.class_directions import turned_to_signs
from scdh.nets.heads import ProjectionHead
from scdh.nets.network import Network


class ItqSettings(Settings):
    iterations: int = Field(50, ge=0, description="turns of taking signs and fitting the rotation to them")
    rotated_rows: int = Field(
        100_000, ge=1, description="rows that the rotation is fitted to at most, drawn by seed; PCA takes all of them"
    )


class Itq(Method):
    about = About(
        title="ITQ",
        kind="unsupervised",
        year=2013,
        reference="Gong et al., Iterative Quantization, IEEE TPAMI 2013",
        cost="PCA + r×r SVDs",
        fidelity="faithful",
        use_when="there are no labels, and features are good already",
    )
    Settings = ItqSettings
    settings: ItqSettings
    learns_by_gradient = False
    needs_labels = False

    def build(self, net: Network[ProjectionHead]) -> None:
        net.head = ProjectionHead(net.width, net.bits)

    def fit(self, net: Network[ProjectionHead], features: np.ndarray, labels: np.ndarray, seed: int) -> None:
        """b = sign(R^T V) with V = W^T (x − mean): W the first r principal axes, R the rotation that brings V nearest
        to its own signs. In turns B = sign(R^T V), and R = P Q^T of the SVD V B^T = P Ω Q^T: least ‖B − R^T V‖.

        Written out rather than taken from faiss, whose ITQTransform scores lower on the same features: a baseline must
        not be easier to beat than it was published.
        """
        if net.bits > features.shape[1]:
            raise ConfigError(f"ITQ gives at most {features.shape[1]} bits for features of that width, not {net.bits}.")
        mean = features.mean(0)
        centred = features - mean
        _, axes = np.linalg.eigh(centred.T @ centred)  # in ascending order, so the principal axes are the last
        principal = axes[:, : -net.bits - 1 : -1]
        # § The paper rotates all rows; of a million of them, a part gives almost the same r × r rotation much sooner.
        projected = _sample(centred, self.settings.rotated_rows, seed) @ principal
        rotation, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(net.bits, net.bits)))
        rotation = turned_to_signs(projected, rotation, self.settings.iterations)
        net.head.write(mean, principal @ rotation)


def _sample(rows: np.ndarray, most: int, seed: int) -> np.ndarray:
    """The rows themselves, or ``most`` of them."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng([seed, 1]).choice(len(rows), most, replace=False))]
