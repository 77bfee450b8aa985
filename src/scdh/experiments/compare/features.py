"""Features of a whole source by a frozen network: computed once, stored on disk, held in memory for run after run."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from scdh.data.source import Source
from scdh.errors import DataError
from scdh.hasher import Hasher
from scdh.nets.network import weights_fingerprint
from scdh.runs.encoding import hash_outputs_of_features, hash_outputs_of_rows
from scdh.runs.features import cached_trunk_features


class SourceFeatures:
    """Plain (not augmented) features of all rows of a source.

    Args:
        source: images or embeddings; embeddings are their own features.
        cache: folder in which features of images are stored.
    """

    def __init__(self, source: Source, cache: Path) -> None:
        self.source, self.cache = source, cache
        self._trunk = ""
        self._rows, self._features = np.empty(0, np.int64), np.empty((0, 0), np.float32)

    def of_rows(self, hasher: Hasher, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features by the trunk of a model.

        Args:
            hasher: model whose trunk computes the features.
            rows: int64 [n], row numbers of the source.

        Returns:
            int64 [m] and float32 [m, d]: the rows without those whose image could not be read, and their features.
        """
        if self.source.kind == "features":
            return rows, np.asarray(self.source.features[rows])
        self._compute(hasher)
        readable = rows[np.isin(rows, self._rows)]
        if not len(readable):
            raise DataError(f"None of the {len(rows)} items of {self.source.name} could be encoded.")
        return readable, self._features[np.searchsorted(self._rows, readable)]

    def _compute(self, hasher: Hasher) -> None:
        """Compute, or read from the cache, the features of all images, unless they are those in memory."""
        assert hasher.preprocess is not None  # a network of images has one
        # By weights, not by settings: without pretrained weights every seed has another trunk.
        trunk = json.dumps([weights_fingerprint(hasher.network.trunk), hasher.preprocess.to_dict()])
        if trunk == self._trunk:
            return
        self._rows, self._features = cached_trunk_features(
            hasher,
            self.source,
            np.arange(len(self.source)),
            folder=self.cache,
            batch_size=hasher.config.train.batch_size,
            workers=hasher.config.train.workers,
            on_bad_image=hasher.config.data.on_bad_image,
            progress="features of all images",
        )
        self._trunk = trunk

    def hash_outputs(
        self, hasher: Hasher, source: Source, rows: np.ndarray, **options: Any
    ) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """As :func:`hash_outputs_of_rows`; where the trunk is as it came, only the layers above it run."""
        is_trunk_untrained = hasher.config.net.freeze or not hasher.method.learns_by_gradient
        if not is_trunk_untrained or hasher.preprocess is None:
            return hash_outputs_of_rows(hasher, source, rows, **options)
        readable, features = self.of_rows(hasher, rows)
        return [(readable, hash_outputs_of_features(hasher, features))]
