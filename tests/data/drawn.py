"""A split drawn from labels alone, for tests: what the settings of a run give has more parts (scdh.runs.protocol)."""

import numpy as np

from scdh.data.draw import seeded
from scdh.data.hold_out import hold_out
from scdh.data.protocol import Protocol
from scdh.errors import DataError
from scdh.label_arrays import is_labelled


def draw(
    labels: np.ndarray,
    *,
    query_per_class: int | None,
    train_per_class: int | None = None,
    validation_per_class: int | None = 0,
    train_in_database: bool = True,
    seed: int,
    name: str,
    label_names: list[str] | None = None,
    source_fingerprint: str = "",
) -> Protocol:
    """Draw queries, then training rows from the rest; the database is everything but the queries."""
    labels = np.asarray(labels)
    order = seeded(seed).permutation(np.flatnonzero(is_labelled(labels)))
    parts = hold_out(
        labels,
        order,
        query_per_class=query_per_class,
        train_per_class=train_per_class,
        validation_per_class=validation_per_class,
        label_names=label_names,
    )
    if not len(parts.train):
        raise DataError(f"Protocol {name!r} leaves no rows to train on.")
    in_database = np.isin(np.arange(len(labels)), parts.query, invert=True)
    if not train_in_database:
        in_database[parts.train] = in_database[parts.validation] = False
    database, about = np.flatnonzero(in_database), "; ".join((f"drawn by seed {seed}", *parts.notes))
    protocol = Protocol(name, seed, parts.train, parts.query, database, parts.validation, source_fingerprint, about)
    return protocol.check(len(labels))
