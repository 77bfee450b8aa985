"""SCDH against codes that learn nothing (LSH), codes that learn without labels (ITQ), and the float features.

All four see the same features of the same photos; only what is made of them differs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.codes import Codes
from scdh.config import RunConfig, load_config
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ConfigError, unknown_name
from scdh.evaluation import evaluate
from scdh.experiments.demo.comparison import Comparison, Entry
from scdh.experiments.demo.cosine import cosine_scores
from scdh.hasher import Hasher
from scdh.losses import quantization_loss
from scdh.methods.itq import Itq
from scdh.methods.lsh import Lsh
from scdh.progress import track
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.features import cached_trunk_features
from scdh.training.run import train

PRESETS = {"groceries": "demo-groceries", "digits": "demo-digits"}
FINE = "finegrained_cat="
BATCH = 32  # photos through the trunk at once


def compare(
    data: str,
    bits: tuple[int, ...],
    seed: int,
    *,
    cache: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Comparison:
    """Train and score everything on ``data``; ``cache`` keeps the trunk's features, ``overrides`` change the preset."""
    if data not in PRESETS:
        raise ConfigError(unknown_name("demo data", data, list(PRESETS)))
    if not bits or min(bits) < 1:
        raise ConfigError(f"The codes need at least 1 bit, got {list(bits)}.")
    config = load_config(PRESETS[data], overrides={**(overrides or {}), "seed": seed})
    source = source_of(config)
    protocol = protocol_of(config, source)
    labels, names = scored_labels(source)
    empty = np.empty((0, 0), np.float32)
    found = Comparison(config, source, protocol, empty, empty, labels, names)
    with found.timed("features"):
        found.database_features, found.query_features = _features(config, source, protocol, cache)
    fitted_on = found.database_features[np.isin(protocol.database, protocol.train)]
    lengths = sorted(set(bits))
    for length in track(lengths, len(lengths), "training SCDH", "code lengths"):
        run = load_config(PRESETS[data], overrides={**(overrides or {}), "seed": seed, "method.bits": length})
        with found.timed(f"training {length} bits"):
            hasher = train(run, None, feature_cache=cache, quiet=True)
        with found.timed("codes and scores"):
            u, stored = (_real_outputs(hasher, f) for f in (found.query_features, found.database_features))
            l_q = float(quantization_loss(torch.from_numpy(u)))
            codes = Codes.from_signs(u), Codes.from_signs(stored)
            found.entries.append(_entry(found, "SCDH", length, *codes, u=u, hasher=hasher, l_q=l_q))
    with found.timed("codes and scores"):
        for floor in (kind(kind.Settings(), length, len(names), False) for kind in (Itq, Lsh) for length in lengths):
            floor.fit(fitted_on, None, seed)
            codes = floor.encode(found.query_features), floor.encode(found.database_features)
            found.entries.append(_entry(found, floor.about.title, floor.bits, *codes))
        vectors = found.query_features, found.query_labels, found.database_features, found.database_labels
        width = found.query_features.shape[1]
        found.entries.append(Entry(f"{width:,} floats", None, 4 * width, cosine_scores(*vectors)))
    return found


def scored_labels(source: Source) -> tuple[np.ndarray, list[str]]:
    """int64 [n] and names of the labels that decide what is relevant: the fine ones where there are coarse and fine."""
    if not source.multi_label:
        return source.labels, source.label_names
    fine = [i for i, name in enumerate(source.label_names) if name.startswith(FINE)]
    return source.labels[:, fine].argmax(axis=1), [source.label_names[i].removeprefix(FINE) for i in fine]


def _features(
    config: RunConfig, source: Source, protocol: Protocol, cache: Path | None
) -> tuple[np.ndarray, np.ndarray]:
    """Features of database and queries; where a trunk gives them, those that training will ask for are made here too,
    so that all long work shows one kind of bar.
    """
    if source.kind == "features":
        return source.features[protocol.database], source.features[protocol.query]
    hasher, _ = Hasher.build(config, source.label_names, source.multi_label, None)

    def of(rows: np.ndarray, title: str, view: int = 0) -> np.ndarray:
        return cached_trunk_features(
            hasher,
            source,
            rows,
            folder=cache,
            augmentation=config.train.augmentation if view else "none",
            random_key=(0, view) if view else None,  # as training asks for them, whatever the seed
            batch_size=BATCH,
            workers=config.train.workers,
            progress=title,
        )[1]

    queries, database = of(protocol.query, "features of the queries"), of(protocol.database, "features of the database")
    if cache is not None:
        count = 1 if config.train.augmentation == "none" else config.net.views
        for view in range(1, count):
            of(protocol.train, f"random crops {view}/{count - 1} of the training photos", view)
    return database, queries


def _real_outputs(hasher: Hasher, features: np.ndarray) -> np.ndarray:
    """u of features; where they come from the trunk of an image network only its heads are left to run."""
    return hasher.real_outputs(features) if hasher.preprocess is None else hasher.outputs_of_features(features)


def _entry(found: Comparison, method: str, bits: int, queries: Codes, database: Codes, **more: Any) -> Entry:
    scores = evaluate(queries, found.query_labels, database, found.database_labels)
    return Entry(method, bits, queries.packed.shape[1], scores, queries, database, **more)
