"""The interface of everything that can be searched: the local index, and each engine of ``index.engines``."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.index.byte_tables import ByteTables
from scdh.index.hits import Hits, RaggedHits
from scdh.index.items import Items, WithLabels


class Abilities(NamedTuple):
    """What an index can do beyond the calls that all of them have.

    Attributes:
        lists_ids: ``ids`` returns the ids of all items; otherwise it raises ``UnsupportedError``.
        counts: ``count_within`` takes about as long as a search, however many items are counted.
        byte_tables: ``search`` ranks by tables of bytes; otherwise it raises ``UnsupportedError``.
        names: the index keeps names and labels of its items, as every ``SearchEngine`` does.
    """

    lists_ids: bool
    counts: bool
    byte_tables: bool
    names: bool = False


class SearchIndex(Protocol):
    """Codes with ids, searched by Hamming distance. All implementations return the same hits in the same order.

    ``HammingIndex`` documents the arguments.
    """

    abilities: Abilities

    @property
    def bits(self) -> int:
        """The number of bits of each code."""

    @property
    def metadata(self) -> dict[str, str]:
        """Text by name that came with the codes, such as the fingerprint of the model; a copy."""

    @property
    def ids(self) -> NDArray[np.int64]:
        """All ids, int64 [n] in ascending order."""

    @property
    def vector_kind(self) -> tuple[str, int] | None:
        """Type and width of the vectors of the items, which ``rescore`` needs; None if they have none."""

    def __len__(self) -> int:
        """The number of items."""

    def search(
        self,
        query_codes: Codes,
        k: int = 10,
        *,
        weights: ArrayLike | None = None,
        byte_tables: ByteTables | None = None,
        only: ArrayLike | None = None,
        progress: bool = False,
    ) -> Hits:
        """The k nearest items of each query, ordered by (distance, id)."""

    def within(
        self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None, progress: bool = False
    ) -> RaggedHits:
        """All items at a distance of at most ``radius`` from each query, ordered by (distance, id)."""

    def count_within(self, query_codes: Codes, radius: int = 2, *, only: ArrayLike | None = None) -> NDArray[np.int64]:
        """The number of items at a distance of at most ``radius`` from each query, int64 [q]."""

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether the index holds each of the ``ids`` int64 [m]: booleans [m]."""

    def codes_of(self, ids: ArrayLike) -> Codes:
        """The codes of these items in their order; raises ``UnknownIdError`` if an id is unknown."""

    def filter_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.bool_]:
        """These ids as a value of ``only`` that is fast in repeated searches."""

    def add(self, codes: Codes, ids: ArrayLike | None = None) -> NDArray[np.int64]:
        """Add codes and return their ids; adds nothing if an id exists."""

    def remove(self, ids: ArrayLike) -> None:
        """Remove items; removes nothing if an id is unknown."""

    def refresh(self) -> bool:
        """Load the newest state; False if the index has it already."""

    def warm_up(self) -> None:
        """Load now what later searches need."""

    def close(self) -> None:
        """Release connections; the index cannot be used afterwards."""


class SearchEngine(SearchIndex, Protocol):
    """An index that lives in another program, at an address such as ``milvus://host/photos``.

    It stores names and labels, and its searches also take what ``with_labels`` gives as ``only``.
    """

    @property
    def shown(self) -> str:
        """The address without its password."""

    @classmethod
    def create_or_open(cls, uri: str, bits: int, metadata: Mapping[str, str] | None = None) -> Self:
        """The index at this address, which must have these bits; a new one if none exists."""

    @classmethod
    def open(cls, uri: str) -> Self:
        """The index at this address, which must exist."""

    def add(self, codes: Codes, ids: ArrayLike | None = None, items: Items | None = None) -> NDArray[np.int64]:
        """Add codes with their names and labels and return their ids; adds nothing if an id exists."""

    def load(self, codes: Codes, ids: ArrayLike | None = None, items: Items | None = None) -> int:
        """Write all codes, replacing those with the same ids; the number of rows written. Repeating it is harmless."""

    def items_of(self, ids: ArrayLike) -> Items:
        """Names and labels of these items in their order; empty ones of unknown ids."""

    def named(self, names: Sequence[str]) -> dict[int, str]:
        """The items that have one of these names: name by id."""

    def with_labels(self, labels: Sequence[str]) -> WithLabels:
        """A value of ``only``: items that have one of these labels; raises ``UnknownLabelError`` if none has one."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
