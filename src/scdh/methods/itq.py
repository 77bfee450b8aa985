"""ITQ: PCA followed by the rotation that loses least when signs are taken; the floor that learns without labels."""

import numpy as np

from scdh.codes import Codes
from scdh.config import Settings
from scdh.errors import ConfigError
from scdh.methods.base import About, Method


class ItqSettings(Settings):
    iterations: int = 50


class Itq(Method):
    about = About(
        title="ITQ",
        kind="unsupervised",
        year=2013,
        reference="Gong et al., Iterative Quantization, IEEE TPAMI 2013",
        cost="PCA + r×r SVDs",
    )
    Settings = ItqSettings
    settings: ItqSettings
    learns_by_gradient = False

    def fit(self, features: np.ndarray, labels: np.ndarray | None, seed: int) -> "Itq":
        import faiss

        if self.bits > features.shape[1]:
            raise ConfigError(
                f"ITQ gives at most {features.shape[1]} bits for features of that width, not {self.bits}."
            )
        features = np.ascontiguousarray(features, np.float32)
        self.transform = faiss.ITQTransform(features.shape[1], self.bits, True)
        self.transform.itq.max_iter, self.transform.itq.seed = self.settings.iterations, seed
        self.transform.train(features)
        return self

    def encode(self, features: np.ndarray) -> Codes:
        return Codes.from_signs(self.transform.apply(np.ascontiguousarray(features, np.float32)))
