"""The whole collection: a map, a sample of items to start from, and the codes of many items at once."""

import asyncio
import base64
import json
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.label_arrays import is_labelled
from scdh.printable import printable
from scdh.serve.layout import place
from scdh.serve.request_errors import RequestError
from scdh.serve.snapshot import Snapshot

MOST_POINTS = 100_000
MOST_REMOTE_POINTS = 10_000  # codes of a search engine come over the network
# Each change makes a new state of the index; a map of the state before is good enough for this long.
KEPT_SECONDS = 300.0
GRID = 65535


class Maps:
    """The newest map, made on the first request. Used from one event loop."""

    def __init__(self) -> None:
        # Not the snapshot itself, because a replaced file stays on disk while its arrays are in use.
        self._newest: tuple[weakref.ref[Snapshot], float, bytes] | None = None
        self._making: asyncio.Task[bytes] | None = None

    async def of(self, snapshot: Snapshot) -> bytes:
        """JSON of the map of this state, or of an earlier one; requests before the first map wait for the same one."""
        if self._newest is not None:
            made_of, made, content = self._newest
            if made_of() is not snapshot and time.monotonic() - made > KEPT_SECONDS:
                self._begin(snapshot)
            return content
        # A client that gives up does not end it for the others.
        return await asyncio.shield(self._begin(snapshot))

    def _begin(self, snapshot: Snapshot) -> asyncio.Task[bytes]:
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(snapshot))
            # Those who wait for it get its error; without them asyncio would log it as never retrieved.
            self._making.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._making

    async def _make(self, snapshot: Snapshot) -> bytes:
        made = await asyncio.to_thread(make_map, snapshot)
        content = await asyncio.to_thread(lambda: json.dumps(made).encode("ascii"))
        if made["points"]:  # items that are added to an empty index must appear soon
            self._newest = (weakref.ref(snapshot), time.monotonic(), content)
        return content


def make_map(snapshot: Snapshot) -> dict[str, Any]:
    """Where items lie on a plane, and their labels.

    Arrays are base64 of little-endian numbers, in the same order: ``ids`` int64, ``x`` and ``y`` uint16 (y upwards),
    ``labels`` int32, the place of an item's first label in ``label_names``, −1 for none. ``label_names`` has the most
    frequent ones first. ``items`` is the number of items of the index, of which there may be more than points.
    """
    most = MOST_POINTS if snapshot.index.abilities.lists_ids else MOST_REMOTE_POINTS
    ids = np.sort(_sample(_known_ids(snapshot), most))
    places = np.rint(place(snapshot.index.codes_of(ids)) * GRID).astype("<u2")
    labels, names = _first_labels(snapshot, ids)
    return {
        "items": len(snapshot.index),
        "points": len(ids),
        "label_names": names,
        "ids": _base64(ids.astype("<i8")),
        "x": _base64(places[:, 0]),
        "y": _base64(places[:, 1]),
        "labels": _base64(labels.astype("<i4")),
    }


def some_items(snapshot: Snapshot, count: int, labels: Sequence[str], name: str = "") -> list[dict[str, Any]]:
    """Descriptions of up to ``count`` items from anywhere in the collection, the same ones each time; or of the first
    ones whose name contains ``name``, in upper or lower case.
    """
    known = snapshot.ids_with_name(name) if name else _known_ids(snapshot)
    if labels:
        known = known[np.isin(known, snapshot.ids_with_labels(labels))]
    return snapshot.describe(known[:count] if name else _sample(known, count))


def codes_of(snapshot: Snapshot, ids: Sequence[int]) -> list[dict[str, Any]]:
    """``{"id", "code"}`` of the items that exist."""
    wanted = np.unique(np.array(ids, np.int64))
    index = snapshot.index
    known = wanted[index.contains(wanted)]
    rows = index.codes_of(known).packed if len(known) else ()
    return [{"id": own, "code": row.tobytes().hex()} for own, row in zip(known.tolist(), rows, strict=True)]


def _known_ids(snapshot: Snapshot) -> NDArray[np.int64]:
    index = snapshot.index
    if index.abilities.lists_ids:
        return index.ids
    if snapshot.names is None:
        message = "The ids of this collection are unknown; start the service with --names."
        raise RequestError(404, "no_overview", message)
    drawn = _sample(snapshot.names.ids, MOST_REMOTE_POINTS)
    return drawn[index.contains(drawn)]


def _sample(ids: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Some of the ids in random order, the same each time."""
    return ids if len(ids) == 0 else np.random.default_rng(0).choice(ids, min(count, len(ids)), replace=False)


def _first_labels(snapshot: Snapshot, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """The first label of each item as a number, −1 for none; the labels by frequency."""
    first = np.full(len(ids), -1, np.int64)
    if snapshot.names is None:
        return first, []
    rows = snapshot.names.positions_of(ids)
    labels = snapshot.names.labels[rows]
    has_label = (rows >= 0) & is_labelled(labels)
    first[has_label] = (labels if labels.ndim == 1 else labels.argmax(1))[has_label]
    counts = np.bincount(first[has_label], minlength=len(snapshot.names.label_names))
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    ranks = np.full(len(counts) + 1, -1, np.int64)  # the last entry is for −1
    ranks[order] = np.arange(len(order))
    return ranks[first], [printable(snapshot.names.label_names[number]) for number in order]


def _base64(numbers: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")
