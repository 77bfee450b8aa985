"""Which data a run takes, and which rows train, ask and are searched."""

import numpy as np

from scdh.config import DataSettings, RunConfig
from scdh.data.draw import take_per_class
from scdh.data.open import open_source
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.data.tables.columns import UNLABELLED
from scdh.errors import ConfigError, DataError


def source_of(config: RunConfig) -> Source:
    data = config.data
    return open_source(
        data.source,
        root=data.root,
        image_column=data.image_column,
        label_column=data.label_column,
        labels=data.labels,
    )


def protocol_of(config: RunConfig, source: Source) -> Protocol:
    """The split that ``config.data`` asks for, with the labels that it lets training keep."""
    protocol, kept = _whole_protocol(config, source), config.data.labelled_per_class
    return protocol if kept is None else protocol.keep_labels(source.labels, kept, seed=config.seed)


def _whole_protocol(config: RunConfig, source: Source) -> Protocol:
    data = config.data
    split = data.split
    if split == "auto":
        parts = set() if source.split is None else {str(s) for s in source.split}
        # Parts that the user named are wanted: drawing instead, because one is not there, would hide a wrong name.
        named = (data.train, data.query) != (DataSettings().train, DataSettings().query)
        split = "given" if named or {data.train, data.query} <= parts else "draw"
    if split != "draw" and data.train_per_class is not None:
        raise ConfigError(
            f"data.train_per_class is for a drawn split, but {source.name} is divided as "
            f"{'it comes' if split == 'given' else 'a whole'}; add data.split=draw or leave it out."
        )
    if split == "given":
        # Rows without label that stand apart (a folder beside train and test) are searched too.
        apart = source.split is not None and UNLABELLED in source.split and UNLABELLED not in (data.train, data.query)
        return Protocol.from_split(
            source,
            train=data.train,
            query=data.query,
            database=(data.train, UNLABELLED) if apart else data.train,
            validation_per_class=data.validation_per_class,
            seed=config.seed,
            name=f"{source.name} as given",
        )
    if split == "all":
        labelled = np.flatnonzero(source.labelled)
        order = np.random.default_rng(config.seed).permutation(labelled)
        held = take_per_class(source.labels, order, data.validation_per_class, "validation", source.label_names)
        rest, nobody = np.setdiff1d(labelled, held), np.empty(0, np.int64)
        if not len(rest):
            raise DataError(f"{source.name} has no labelled rows to train on.")
        everything, print_ = np.arange(len(source)), source.fingerprint()
        return Protocol(f"{source.name} whole", config.seed, rest, nobody, everything, held, print_).check(len(source))
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
