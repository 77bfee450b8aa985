"""Features of a source by a trunk that training does not change: stored ones are read, missing ones are computed.

``scdh evaluate`` and ``scdh encode`` reuse the features that ``scdh train`` stored; a comparison shares them among its
runs.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scdh.data.source import Source
from scdh.errors import DataError
from scdh.model import Engine
from scdh.model.hasher import Hasher
from scdh.nets.network import Network, weights_fingerprint
from scdh.runs.encoding import hash_outputs_of_features, hash_outputs_of_rows
from scdh.runs.features import cached_trunk_features, has_features

CHUNK = 1 << 16  # rows whose features are in memory at once while codes are computed


class SourceFeatures:
    """Plain (not augmented) features of the rows of a source.

    Args:
        source: images or embeddings; embeddings are their own features.
        folder: where features of images are kept; None: nowhere.
        stores: whether features that had to be computed are added to ``folder``.
        holds_all: compute the features of all rows at the first request and hold them, for run after run.
    """

    def __init__(self, source: Source, folder: Path | None, *, stores: bool = True, holds_all: bool = False) -> None:
        self.source = source
        self.folder = folder
        self.stores = stores
        self.holds_all = holds_all
        self._trunk = ""
        self._rows, self._features = np.empty(0, np.int64), np.empty((0, 0), np.float32)

    def of_rows(
        self, hasher: Hasher, rows: np.ndarray, *, progress: str | None = "features", **loading: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Features by the trunk of a model.

        Returns:
            int64 [m] and float32 [m, d]: the rows without those whose image could not be read, and their features.
        """
        if self.source.kind == "features":
            return rows, np.asarray(self.source.features[rows])
        if not self.holds_all:
            return self._read(hasher, rows, progress, loading)
        self._hold_all(hasher)
        readable = rows[np.isin(rows, self._rows)]
        if not len(readable):
            raise DataError(f"None of the {len(rows)} items of {self.source.name} could be encoded.")
        return readable, self._features[np.searchsorted(self._rows, readable)]

    def _hold_all(self, hasher: Hasher) -> None:
        """Read the features of all images, unless they are those in memory."""
        assert hasher.preprocess is not None  # a network of images has one
        # By weights, not by settings: without pretrained weights every seed has another trunk.
        trunk = json.dumps([weights_fingerprint(hasher.network.trunk), hasher.preprocess.to_dict()])
        if trunk != self._trunk:
            every_row = np.arange(len(self.source))
            self._rows, self._features = self._read(hasher, every_row, "features of all images", {})
            self._trunk = trunk

    def _read(
        self, hasher: Hasher, rows: np.ndarray, progress: str | None, loading: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray]:
        config = hasher.config
        settings = {
            "batch_size": config.train.batch_size,
            "workers": config.train.workers,
            "on_bad_image": config.data.on_bad_image,
            **loading,
        }
        return cached_trunk_features(
            hasher, self.source, rows, folder=self.folder, stores=self.stores, progress=progress, **settings
        )

    def hash_outputs(
        self,
        hasher: Hasher,
        source: Source,
        rows: np.ndarray,
        *,
        progress: str | None = None,
        engine: Engine = "torch",
        **loading: Any,
    ) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """As :func:`hash_outputs_of_rows`; if training did not change the trunk, only the layers above it run, in
        torch. (The trunk of an INT8 model differs: stored features are those of the float32 model.)
        """
        is_kept = _has_frozen_stages(hasher) and hasher.preprocess is not None and hasher.quantisation is None
        if not is_kept or not self._is_of_use(hasher.frozen_part()):
            return hash_outputs_of_rows(hasher, source, rows, progress=progress, engine=engine, **loading)
        hasher.check_fits(source)
        return self._hash_outputs(hasher.frozen_part(), hasher.learned_part(), rows, progress, loading)

    def _is_of_use(self, hasher: Hasher) -> bool:
        """Features that are neither stored nor going to be stored would only take memory."""
        return self.holds_all or (
            self.folder is not None and (self.stores or has_features(hasher, self.source, self.folder))
        )

    def _hash_outputs(
        self, frozen: Hasher, learned: Network, rows: np.ndarray, progress: str | None, loading: dict[str, Any]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        starts = range(0, len(rows), CHUNK)
        for number, start in enumerate(starts, start=1):
            title = progress if progress is None or len(starts) == 1 else f"{progress} {number}/{len(starts)}"
            readable, features = self.of_rows(frozen, rows[start : start + CHUNK], progress=title, **loading)
            if len(readable):
                yield readable, hash_outputs_of_features(frozen.method, learned, features)


def has_untrained_trunk(hasher: Hasher) -> bool:
    """Whether the whole trunk is as pretrained: it is frozen, or the method is fitted to its features."""
    return hasher.config.net.freeze is True or not hasher.method.learns_by_gradient


def _has_frozen_stages(hasher: Hasher) -> bool:
    return hasher.config.net.caches_frozen or has_untrained_trunk(hasher)
