"""The contents of a collection: the number of items, their ids, codes, names and labels, the largest id."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.index.items import Items, WithLabels, stored_items
from scdh.index.milvus.server import MilvusServer

BATCH_ROWS = 10_000
MOST_ROWS = 16_384  # Milvus gives at most so many at once


def count_rows(server: MilvusServer, condition: str = "") -> int:
    """The number of items, by a query: the statistics of a server still count removed ones."""
    return int(server.call("query", filter=condition, output_fields=["count(*)"])[0]["count(*)"])


def label_filter(condition: WithLabels | None) -> str:
    """A filter of Milvus; its texts are quoted as in JSON."""
    return "" if condition is None else f"array_contains_any(labels, {_quoted(list(condition.labels))})"


def _quoted(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)


def batches(ids: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    return (ids[start : start + BATCH_ROWS] for start in range(0, len(ids), BATCH_ROWS))


def known_ids(server: MilvusServer, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of these ids that the collection holds, in any order."""
    rows = [row["id"] for part in batches(ids) for row in _rows(server, part, ["id"])]
    return np.array(rows, dtype=np.int64)


def known_codes(server: MilvusServer, ids: NDArray[np.int64], bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Those of these ids that the collection holds, in ascending order, and their packed codes."""
    width = -(-bits // 8)
    id_parts = [np.empty(0, np.int64)]
    codes = [np.empty((0, width), np.uint8)]
    for part in batches(ids):
        rows = _rows(server, part, ["id", "code"])
        # Indexing this list decodes the code of a row; plain iteration gives the ids without that.
        id_parts.append(np.array([row["id"] for row in list.__iter__(rows)], dtype=np.int64))
        codes.append(_packed(rows, width))
    stored_ids = np.concatenate(id_parts)
    order = np.argsort(stored_ids)
    return stored_ids[order], np.concatenate(codes)[order]


def known_items(server: MilvusServer, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Items]:
    """Those of these ids that the collection holds, in ascending order, and their names and labels."""
    rows = [row for part in batches(ids) for row in _rows(server, part, ["id", "name", "labels"])]
    rows.sort(key=lambda row: row["id"])
    items = stored_items([row["name"] for row in rows], [row["labels"] for row in rows])
    return np.array([row["id"] for row in rows], dtype=np.int64), items


def named(server: MilvusServer, names: list[str]) -> dict[int, str]:
    """The items that have one of these names: name by id."""
    condition = f"name in {_quoted(names)}"
    rows = server.call("query", filter=condition, output_fields=["id", "name"], limit=MOST_ROWS)
    return {row["id"]: row["name"] for row in rows}


def _packed(rows: Any, width: int) -> NDArray[np.uint8]:
    """The codes of an answer, from the one block of memory that has them all.

    Decoding them row by row takes longer than writing them did. It is what pymilvus documents, though, and is done if
    a version of it stores answers in another form.
    """
    fields = getattr(rows, "_lazy_field_data", None) or []
    whole = [getattr(getattr(entry, "vectors", None), "binary_vector", b"") for entry in fields]
    if len(whole) == 1 and len(whole[0]) == len(rows) * width:
        return np.frombuffer(whole[0], dtype=np.uint8).reshape(len(rows), width)
    return np.array([list(row["code"][0]) for row in rows], dtype=np.uint8).reshape(len(rows), width)


def _rows(server: MilvusServer, ids: NDArray[np.int64], fields: list[str]) -> Any:
    condition = f"id in {ids.tolist()}"
    return server.call("query", filter=condition, output_fields=fields, limit=max(1, len(ids)))


def largest_id(server: MilvusServer) -> int:
    """The largest id, −1 for an empty collection.

    Milvus does not sort, so this requests any id above x: first for x near the number of rows, where ids that count
    from 0 end (4 requests), then in steps that double, and then by bisection (some 130 requests at worst).
    """

    def any_id(condition: str) -> int | None:
        rows = server.call("query", filter=condition, output_fields=["id"], limit=1)
        return int(rows[0]["id"]) if rows else None

    low = any_id(f"id > {count_rows(server) - 2}")
    if low is None:
        low = any_id("")
    if low is None:
        return -1
    step, end = 1, int(np.iinfo(np.int64).max)
    while low + step < end and (larger := any_id(f"id > {low + step}")) is not None:
        low, step = larger, 2 * step
    high = min(low + step, end)
    while low < high:
        middle = (low + high) // 2
        larger = any_id(f"id > {middle}")
        low, high = (low, middle) if larger is None else (larger, high)
    return low
