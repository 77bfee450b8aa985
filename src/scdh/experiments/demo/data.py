"""The data of a demo: photos or digits, their split, the labels that count, and the features that codes replace."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scdh.config import RunConfig, load_config
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ConfigError, unknown_name
from scdh.hasher import Hasher
from scdh.runs.encoding import hash_outputs_of_features
from scdh.runs.features import cached_trunk_features
from scdh.runs.protocol import protocol_of, source_of
from scdh.runs.scored_labels import scored_labels

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
        query_features: float32 [q, d], in the order of the protocol's query rows.
        database_features: float32 [n, d], in the order of its database rows.
    """

    config: RunConfig
    source: Source
    protocol: Protocol
    label_column: str | None
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
        """Positions of the queries that are no copy of an earlier one: data sets hold copies more often than they say.

        JPEGs are compared as decoded at a small size, which takes a fraction of the time.
        """
        rows, source = self.protocol.query, self.source
        if source.kind == "features":
            return np.sort(np.unique(source.features[rows], axis=0, return_index=True)[1])
        first_positions: dict[bytes, int] = {}
        for position, row in enumerate(rows.tolist()):
            first_positions.setdefault(source.image(row, at_least=32).tobytes(), position)
        return np.array(list(first_positions.values()))

    def hash_outputs(
        self, hasher: Hasher, source: Source, rows: np.ndarray, **_: Any
    ) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """As ``runs.encoding.hash_outputs_of_rows``, from the features; ``rows`` are the queries or the database."""
        return [(rows, self.outputs(hasher, self.features_of_rows(rows)[1]))]

    def features_of_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``rows``, which are the queries or the database, and their features."""
        is_query = np.array_equal(rows, self.protocol.query)
        return rows, self.query_features if is_query else self.database_features

    def outputs(self, hasher: Hasher, features: np.ndarray) -> np.ndarray:
        """u float32 [n, r] of features [n, d]: of an image network only the layers above the trunk run."""
        if self.source.kind == "features":
            return hasher.hash_outputs(features)
        return hash_outputs_of_features(hasher, features)


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
    queries, database = _features(config, source, protocol, cache)
    return DemoData(config, source, protocol, LABEL_COLUMNS.get(data), queries, database)


def _features(config: RunConfig, source: Source, protocol: Protocol, cache: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features of queries and database. Those that training will read from the cache are computed here too, so that all
    long work shows one kind of bar.
    """
    if source.kind == "features":
        return source.features[protocol.query], source.features[protocol.database]
    hasher = Hasher.build(config, source.label_names, source.multi_label, None)

    def features(rows: np.ndarray, title: str, view: int = 0) -> np.ndarray:
        return cached_trunk_features(
            hasher,
            source,
            rows,
            folder=cache,
            augmentation=config.train.augmentation if view else "none",
            random_key=(0, view) if view else None,  # as training reads them, whatever the seed
            batch_size=BATCH,
            workers=config.train.workers,
            progress=title,
        )[1]

    queries = features(protocol.query, "features of the queries")
    database = features(protocol.database, "features of the database")
    count = 1 if config.train.augmentation == "none" else config.net.views
    for view in range(1, count):
        features(protocol.train, f"random crops {view}/{count - 1} of the training photos", view)
    return queries, database
