"""The data of a demo: photos or digits, their split, the labels that count, and the features that codes replace."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scdh.config import RunConfig, load_config
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ConfigError, unknown_name
from scdh.model.hasher import Hasher
from scdh.runs.features import cached_trunk_features
from scdh.runs.protocol import protocol_of, source_of
from scdh.runs.scored_labels import scored_labels
from scdh.runs.source_features import SourceFeatures

PRESETS = {"groceries": "demo-groceries", "digits": "demo-digits"}
# Groceries train on a coarse and a fine label; a photo is right only if the fine one is.
LABEL_COLUMNS = {"groceries": "finegrained_cat"}
BATCH = 32  # photos through the trunk at once


@dataclass(frozen=True, eq=False)
class DemoData:
    """What every ranking of a demo shares.

    Args:
        config: the preset's settings, with the seed of the demo.
        source: the data.
        protocol: which rows train, are queries and are the database.
        label_column: the label column that counts; None: the data have only one.
        features: gives the features of any rows, and the outputs of models on them.
        query_features: float32 [q, d], in the order of the protocol's query rows.
        database_features: float32 [n, d], in the order of its database rows.
    """

    config: RunConfig
    source: Source
    protocol: Protocol
    label_column: str | None
    features: SourceFeatures
    query_features: np.ndarray
    database_features: np.ndarray

    @cached_property
    def _scored(self) -> tuple[np.ndarray, list[str]]:
        return scored_labels(self.source, self.label_column)

    @property
    def label_names(self) -> list[str]:
        return self._scored[1]

    @property
    def query_labels(self) -> np.ndarray:
        """int64 [q]: numbers of the labels that count."""
        return self._scored[0][self.protocol.query]

    @property
    def database_labels(self) -> np.ndarray:
        """int64 [n]: numbers of the labels that count."""
        return self._scored[0][self.protocol.database]

    @cached_property
    def distinct_queries(self) -> np.ndarray:
        """Positions of the queries that are not copies of an earlier one: data sets often hold copies.

        JPEGs are compared as decoded at a small size, which takes a fraction of the time.
        """
        rows, source = self.protocol.query, self.source
        if source.kind == "features":
            return np.sort(np.unique(source.features[rows], axis=0, return_index=True)[1])
        first_positions: dict[bytes, int] = {}
        for position, row in enumerate(rows.tolist()):
            first_positions.setdefault(source.image(row, at_least=32).tobytes(), position)
        return np.array(list(first_positions.values()))

    def features_of_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``rows``, which are the queries or the database, and their features."""
        is_query = np.array_equal(rows, self.protocol.query)
        return rows, self.query_features if is_query else self.database_features


def open_demo_data(data: str, seed: int, cache: Path, overrides: Mapping[str, Any] | None = None) -> DemoData:
    """Open the data of a demo, and compute the features that all of its runs need.

    Args:
        data: "groceries" or "digits".
        seed: decides the split, where the data come without one.
        cache: folder that keeps the features of photos.
        overrides: settings over the preset, by dotted key.

    Raises:
        ConfigError: if there is no such demo.
    """
    if data not in PRESETS:
        raise ConfigError(unknown_name("demo data", data, list(PRESETS)))
    config = load_config(PRESETS[data], overrides={**(overrides or {}), "seed": seed})
    source = source_of(config)
    protocol = protocol_of(config, source)
    features = SourceFeatures(source, cache)
    width = source.features.shape[1] if source.kind == "features" else None
    hasher = Hasher.build(config, source.label_names, source.multi_label, width)
    queries = features.of_rows(hasher, protocol.query, progress="features of the queries", batch_size=BATCH)[1]
    database = features.of_rows(hasher, protocol.database, progress="features of the database", batch_size=BATCH)[1]
    if source.kind == "images":
        _compute_random_crops(hasher, source, protocol, cache)
    return DemoData(config, source, protocol, LABEL_COLUMNS.get(data), features, queries, database)


def _compute_random_crops(hasher: Hasher, source: Source, protocol: Protocol, cache: Path) -> None:
    """Compute the features that training will read from the cache, so that all long work shows one kind of bar."""
    train = hasher.config.train
    count = 1 if train.augmentation == "none" else hasher.config.net.views
    for view in range(1, count):
        cached_trunk_features(
            hasher,
            source,
            protocol.train,
            folder=cache,
            augmentation=train.augmentation,
            random_key=(0, view),  # as training reads them, for every seed
            batch_size=BATCH,
            workers=train.workers,
            progress=f"random crops {view}/{count - 1} of the training photos",
        )
