"""Which data a run uses, and which of its rows train, are queries, and are searched."""

import numpy as np

from scdh.config import DataSettings, RunConfig
from scdh.data.draw import take_per_class
from scdh.data.open import open_source
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.data.tables.columns import UNLABELLED
from scdh.errors import ConfigError, DataError
from scdh.methods.declared import declared


def source_of(config: RunConfig) -> Source:
    """Open the data that ``config.data`` names."""
    data = config.data
    return open_source(
        data.source,
        root=data.root,
        image_column=data.image_column,
        vector_column=data.vector_column,
        label_column=data.label_column,
        label_separator=data.label_separator,
        id_column=data.id_column,
        labels=data.labels,
    )


def protocol_of(config: RunConfig, source: Source) -> Protocol:
    """The split that ``config.data`` describes, with the labels that it lets training keep."""
    protocol, labels_per_class = _full_protocol(config, source), config.data.labelled_per_class
    if labels_per_class is None:
        return protocol
    return protocol.keep_labels(source.labels, labels_per_class, seed=config.seed)


def _full_protocol(config: RunConfig, source: Source) -> Protocol:
    if not source.labelled.any() and not declared(config.method.name).needs_labels:
        return _whole(config, source, np.arange(len(source)), np.empty(0, np.int64))
    data, split = config.data, _kind_of_split(config, source)
    if split != "draw" and data.train_per_class is not None:
        raise ConfigError(
            f"data.train_per_class is for a drawn split, but {source.name} is divided as "
            f"{'it comes' if split == 'given' else 'a whole'}; add data.split=draw or leave it out."
        )
    if split == "given":
        return _given_split(config, source)
    if split == "all":
        return _all_rows(config, source)
    return Protocol.draw(
        source.labels,
        query_per_class=data.query_per_class,
        train_per_class=data.train_per_class,
        validation_per_class=data.validation_per_class,
        seed=config.seed,
        name=f"{source.name} {data.query_per_class}/{data.train_per_class or 'all'} a class",
        label_names=source.label_names,
        source_fingerprint=source.fingerprint(),
    )


def _kind_of_split(config: RunConfig, source: Source) -> str:
    data = config.data
    if data.split != "auto":
        return data.split
    parts = set() if source.split is None else {str(part) for part in source.split}
    # A part that the user named must exist: drawing a split instead would hide a wrong name.
    is_named = (data.train, data.query) != (DataSettings().train, DataSettings().query)
    return "given" if is_named or {data.train, data.query} <= parts else "draw"


def _given_split(config: RunConfig, source: Source) -> Protocol:
    data = config.data
    # Unlabelled rows in a part of their own (a folder beside train and test) belong to the database too.
    has_unlabelled_part = (
        source.split is not None and UNLABELLED in source.split and UNLABELLED not in (data.train, data.query)
    )
    return Protocol.from_split(
        source,
        train=data.train,
        query=data.query,
        database=(data.train, UNLABELLED) if has_unlabelled_part else data.train,
        validation_per_class=data.validation_per_class,
        seed=config.seed,
        name=f"{source.name} as given",
    )


def _all_rows(config: RunConfig, source: Source) -> Protocol:
    """Every labelled row trains (but for validation rows), all rows are the database, and there are no queries."""
    labelled = np.flatnonzero(source.labelled)
    order = np.random.default_rng(config.seed).permutation(labelled)
    per_class = config.data.validation_per_class
    validation = take_per_class(source.labels, order, per_class, "validation", source.label_names)
    train = np.setdiff1d(labelled, validation)
    if not len(train):
        raise DataError(f"{source.name} has no labelled rows to train on.")
    return _whole(config, source, train, validation)


def _whole(config: RunConfig, source: Source, train: np.ndarray, validation: np.ndarray) -> Protocol:
    return Protocol(
        name=f"{source.name} whole",
        seed=config.seed,
        train=train,
        query=np.empty(0, np.int64),
        database=np.arange(len(source)),
        validation=validation,
        source_fingerprint=source.fingerprint(),
    ).check(len(source))
