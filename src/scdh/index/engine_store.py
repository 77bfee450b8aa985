"""What an index needs from an engine: a ``Store`` is one collection or table, through an open connection."""

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.index.items import Items, WithLabels
from scdh.storage.json_files import parse_json
from scdh.storage.tensor_files import RESERVED

Ranking = tuple[NDArray[np.int64], NDArray[np.int32]]  # ids and distances of one query, by (distance, id)
NO_RANKING: Ranking = (np.empty(0, np.int64), np.empty(0, np.int32))
Condition = NDArray[np.int64] | WithLabels | None  # ascending ids, or labels, of the items that may be found


class Store(Protocol):
    """One collection or table of an engine, through an open connection."""

    @property
    def shown(self) -> str:
        """The address without its password."""

    def exists(self) -> bool: ...

    def make(self, bits: int, description: str) -> None:
        """Create it, empty."""

    def description(self) -> str | None:
        """The text that was given to ``make``; None if there is none."""

    def prepare(self, bits: int) -> None:
        """Make it ready for searches; raises ``CodesError`` if its codes do not have these bits."""

    def close(self) -> None: ...

    def writing(self) -> AbstractContextManager[object]:
        """A block whose reads and writes belong together, in engines that can lock or roll back."""

    def count(self, condition: Condition = None) -> int: ...

    def ids(self) -> NDArray[np.int64]:
        """All ids in ascending order."""

    def largest_id(self) -> int:
        """The largest id; −1 if there are no items."""

    def known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stored ones among these ids, in any order."""

    def known_codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """The stored ones among these ids, in ascending order, and their packed codes."""

    def known_items(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Items]:
        """The stored ones among these ids, in ascending order, and their names and labels."""

    def named(self, names: list[str]) -> dict[int, str]:
        """The items that have one of these names: name by id."""

    def nearest(self, packed: NDArray[np.uint8], k: int, condition: Condition) -> list[Ranking]:
        """The k nearest of each query."""

    def within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> list[Ranking]:
        """All items within the radius of each query."""

    def count_within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> NDArray[np.int64]: ...

    def write(self, ids: NDArray[np.int64], packed: NDArray[np.uint8], items: Items, compare: bool) -> int:
        """Write one batch; rows with the same ids are replaced.

        ``compare`` writes only those that are missing or differ. Returns the number of rows written.
        """

    def remove(self, ids: NDArray[np.int64]) -> None: ...


def ordered(ids: NDArray[np.int64], distances: NDArray[np.int32]) -> Ranking:
    """A ranking by (distance, id)."""
    order = np.lexsort((ids, distances))
    return ids[order], distances[order]


def differing_rows(
    ids: NDArray[np.int64],
    packed: NDArray[np.uint8],
    items: Items,
    stored_ids: NDArray[np.int64],
    stored: NDArray[np.uint8],
    stored_items: Items,
) -> NDArray[np.int64]:
    """The rows to write for which the engine holds nothing or something else with this id; stored ids are ascending."""
    if not len(stored_ids):
        return np.arange(len(ids))
    places = np.minimum(np.searchsorted(stored_ids, ids), len(stored_ids) - 1)
    differs = (stored_ids[places] != ids) | (stored[places] != packed).any(axis=1)
    held = stored_items.take(places.tolist())
    texts = zip(items.names, items.labels, held.names, held.labels, strict=True)
    other = np.fromiter((a != c or list(b) != list(d) for a, b, c, d in texts), np.bool_, len(ids))
    return np.flatnonzero(differs | other)


_FORMAT = {"format": "scdh-index", "version": "1"}


def describe(bits: int, metadata: Mapping[str, str]) -> str:
    """The description of a new index; ASCII."""
    return json.dumps({**metadata, **_FORMAT, "bits": str(bits)})


def read_description(text: str | None, name: str) -> tuple[int, dict[str, str]]:
    """Bits and metadata of a description; ``name`` is the collection or table in messages.

    Raises:
        CodesError: if the text is not a description of this version.
    """
    try:
        description = parse_json((text or "").encode("utf-8", "replace"))
    except ValueError:
        description = None
    if (
        not isinstance(description, dict)
        or not all(isinstance(value, str) for value in description.values())
        or not all(key in description for key in RESERVED)
        or description["format"] != _FORMAT["format"]
        or not re.fullmatch("[0-9]{1,9}", description["bits"])
    ):
        raise CodesError(f"{name} is not an index of scdh, by its description.")
    if description["version"] != _FORMAT["version"]:
        raise CodesError(
            f"{name} is an index of version {description['version']!r}, but only {_FORMAT['version']!r} can be read."
        )
    return int(description["bits"]), {key: value for key, value in description.items() if key not in RESERVED}
