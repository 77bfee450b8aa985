"""What a comparison holds: one entry per ranking, the data they share, and how long each part took."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from scdh.codes import Codes
from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.evaluation import Scores
from scdh.experiments.demo.cosine import CosineScores
from scdh.hasher import Hasher


@dataclass(frozen=True, eq=False)
class Entry:
    """One line of the table. ``bits`` is None for float vectors; only SCDH has real outputs ``u`` of the queries."""

    method: str
    bits: int | None
    bytes: int
    scores: Scores | CosineScores
    queries: Codes | None = None
    database: Codes | None = None
    u: np.ndarray | None = None
    hasher: Hasher | None = None
    l_q: float | None = None

    @property
    def name(self) -> str:
        return self.method if self.bits is None else f"{self.method} {self.bits} bits"


@dataclass(eq=False)
class Comparison:
    """Everything a report needs; arrays of queries and database stand in the order of the protocol's rows."""

    config: RunConfig
    source: Source
    protocol: Protocol
    query_features: np.ndarray
    database_features: np.ndarray
    labels: np.ndarray
    label_names: list[str]
    entries: list[Entry] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def query_labels(self) -> np.ndarray:
        return self.labels[self.protocol.query]

    @property
    def database_labels(self) -> np.ndarray:
        return self.labels[self.protocol.database]

    @cached_property
    def distinct_queries(self) -> np.ndarray:
        """Positions of the queries that are no copy of an earlier one: data sets hold copies more often than they say.

        JPEGs are compared as decoded at a small size, which takes a fraction of the time.
        """
        rows, source = self.protocol.query, self.source
        if source.kind == "features":
            return np.sort(np.unique(source.features[rows], axis=0, return_index=True)[1])
        first: dict[bytes, int] = {}
        for position, row in enumerate(rows.tolist()):
            first.setdefault(source.image(row, at_least=32).tobytes(), position)
        return np.array(list(first.values()))

    def longest(self, method: str = "SCDH") -> Entry:
        """The entry of a method with the most bits."""
        return max((e for e in self.entries if e.method == method), key=lambda e: e.bits or 0)

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Add to the time that ``what`` took; CPU time with that of the processes that decode images."""
        wall, cpu = time.perf_counter(), sum(os.times()[:4])
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - wall
        self.cpu_seconds[what] = self.cpu_seconds.get(what, 0.0) + sum(os.times()[:4]) - cpu
