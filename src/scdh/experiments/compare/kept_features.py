"""Features of whole data sets by a frozen network: computed once, kept on disk, held in memory for run after run."""

import json
from pathlib import Path

import numpy as np

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.hasher import Hasher
from scdh.nets.network import weights_fingerprint
from scdh.runs.encoding import described_codes, encode_part
from scdh.training.features import cached_trunk_features


class KeptFeatures:
    """Plain (not augmented) features of all rows of a source."""

    def __init__(self, source: Source, cache: Path) -> None:
        self.source, self.cache = source, cache
        self._key, self._held = "", (np.empty(0, np.int64), np.empty((0, 0), np.float32))

    def of(self, hasher: Hasher, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows, features); an image that could not be read leaves no row."""
        if self.source.kind == "features":
            return rows, np.asarray(self.source.features[rows])
        assert hasher.preprocess is not None  # a network of images has one
        # By weights, not by settings: without pretrained weights every seed has another trunk.
        key = json.dumps([weights_fingerprint(hasher.network.trunk), hasher.preprocess.to_dict()])
        if key != self._key:
            self._held = cached_trunk_features(
                hasher,
                self.source,
                np.arange(len(self.source)),
                folder=self.cache,
                batch_size=hasher.config.train.batch_size,
                workers=hasher.config.train.workers,
                on_bad_image=hasher.config.data.on_bad_image,
                progress="features of all images",
            )
            self._key = key
        found, features = self._held
        there = rows[np.isin(rows, found)]
        if not len(there):
            raise DataError(f"None of the {len(rows)} items of {self.source.name} could be encoded.")
        return there, features[np.searchsorted(found, there)]

    def encode(
        self, hasher: Hasher, source: Source, rows: np.ndarray, *, title: str, **loading: object
    ) -> tuple[Codes, RowNames]:
        """As :func:`scdh.runs.encoding.encode_part`; where the trunk was frozen its heads alone run."""
        if not hasher.config.net.freeze or hasher.preprocess is None:
            return encode_part(hasher, source, rows, title=title, **loading)  # type: ignore[arg-type]
        there, features = self.of(hasher, rows)
        return described_codes(hasher, source, [(there, hasher.outputs_of_features(features))])
