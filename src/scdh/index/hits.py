"""What a search gives back: ids and distances, always ordered by (distance, id)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Hits:
    """The k nearest items of each query: ``ids`` int64 and ``distances`` int32, both [q, min(k, n)]."""

    ids: NDArray[np.int64]
    distances: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Ids and distances of one query."""
        return self.ids[query], self.distances[query]


@dataclass(frozen=True, eq=False)
class RaggedHits:
    """Of each query as many items as it has, ``counts`` int64 [q]; the others are laid end to end."""

    counts: NDArray[np.int64]
    ids: NDArray[np.int64]
    distances: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def _stops(self) -> NDArray[np.int64]:
        return np.cumsum(self.counts)

    def of(self, query: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Ids and distances of one query."""
        at = range(len(self))[query]
        stop = int(self._stops[at])
        start = stop - int(self.counts[at])
        return self.ids[start:stop], self.distances[start:stop]
