"""A Milvus collection as the store of an index: ``id``, ``code``, ``name`` and ``labels``.

A code is a binary vector, padded with zeros to whole bytes. Milvus compares every code (BIN_FLAT, HAMMING), but returns
any of several items at the last distance; ``Rankings`` completes them.
"""

from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError, UnsupportedError
from scdh.index.engine_store import NO_RANKING, Condition, Ranking, differing_rows
from scdh.index.items import Items, WithLabels
from scdh.index.milvus import contents
from scdh.index.milvus.rankings import Rankings
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.index.milvus.uri import Address

# Milvus loads a collection from its storage before the first search; a large one takes minutes.
_LOAD_SECONDS = 600.0
_NAME_BYTES = 65_535
_MOST_LABELS = 4_096
_LABEL_BYTES = 1_024


class MilvusCollection:
    """One collection; ``Store`` documents the methods."""

    def __init__(self, address: Address) -> None:
        self.shown = address.text
        self.server = MilvusServer(address)
        self._bits = 0

    def close(self) -> None:
        self.server.close()

    def exists(self) -> bool:
        return bool(self.server.call("has_collection"))

    def make(self, bits: int, description: str) -> None:
        from pymilvus import DataType

        schema = self.server.client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=_width(bits))
        schema.add_field("name", DataType.VARCHAR, max_length=_NAME_BYTES)
        labels = {"max_capacity": _MOST_LABELS, "max_length": _LABEL_BYTES}
        schema.add_field("labels", DataType.ARRAY, element_type=DataType.VARCHAR, **labels)
        # Strong: a search must see what was written before it.
        self.server.call("create_collection", schema=schema, consistency_level="Strong", tries=WRITE_TRIES)

    def description(self) -> str | None:
        return self.server.call("describe_collection").get("description")

    def prepare(self, bits: int) -> None:
        fields = {field["name"]: field["params"] for field in self.server.call("describe_collection")["fields"]}
        if int(fields.get("code", {}).get("dim") or 0) != _width(bits):
            raise CodesError(
                f"The collection at {self.shown} says that it holds codes of {bits} bits, "
                f"but its field 'code' is not {_width(bits)} bits wide."
            )
        if not {"name", "labels"} <= fields.keys():
            raise CodesError(f"The collection at {self.shown} has no fields 'name' and 'labels'.")
        if not self.server.call("list_indexes"):
            # The collection is new, or its creation was interrupted before this step.
            parameters = self.server.client.prepare_index_params()
            parameters.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
            self.server.call("create_index", index_params=parameters, sync=False, tries=WRITE_TRIES)
        self.server.call("load_collection", seconds=_LOAD_SECONDS)
        self._bits = bits

    def writing(self) -> nullcontext[None]:
        return nullcontext()

    def count(self, condition: Condition = None) -> int:
        if condition is None or isinstance(condition, WithLabels):
            return contents.count_rows(self.server, contents.label_filter(condition))
        return len(self.known_ids(condition))

    def ids(self) -> NDArray[np.int64]:
        raise UnsupportedError("A Milvus collection cannot list all its ids.", "lists_ids")

    def largest_id(self) -> int:
        return contents.largest_id(self.server)

    def known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return contents.known_ids(self.server, ids)

    def known_codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        return contents.known_codes(self.server, ids, self._bits)

    def known_items(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Items]:
        return contents.known_items(self.server, ids)

    def named(self, names: list[str]) -> dict[int, str]:
        return contents.named(self.server, names)

    def nearest(self, packed: NDArray[np.uint8], k: int, condition: Condition) -> list[Ranking]:
        rankings, width = self._rankings(condition)
        return rankings.nearest(_vectors(packed), min(k, width)) if width else [NO_RANKING] * len(packed)

    def within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> list[Ranking]:
        rankings, width = self._rankings(condition)
        return rankings.between(_vectors(packed), 0, radius) if width else [NO_RANKING] * len(packed)

    def count_within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> NDArray[np.int64]:
        return np.array([len(ids) for ids, _ in self.within(packed, radius, condition)], np.int64)

    def write(self, ids: NDArray[np.int64], packed: NDArray[np.uint8], items: Items, compare: bool) -> int:
        rows = np.arange(len(ids))
        if compare:
            stored_ids, stored = self.known_codes(ids)
            rows = differing_rows(ids, packed, items, stored_ids, stored, self.known_items(ids)[1])
        if len(rows):
            own = items.take(rows.tolist())
            columns = zip(ids[rows].tolist(), map(bytes, packed[rows]), own.names, map(list, own.labels), strict=True)
            data = [dict(zip(("id", "code", "name", "labels"), row, strict=True)) for row in columns]
            self.server.call("upsert", data=data, tries=WRITE_TRIES)
        return len(rows)

    def remove(self, ids: NDArray[np.int64]) -> None:
        for part in contents.batches(ids):
            self.server.call("delete", ids=part.tolist(), tries=WRITE_TRIES)

    def _rankings(self, condition: Condition) -> tuple[Rankings, int]:
        """What ranks the items that may be found, and their number."""
        if condition is None or isinstance(condition, WithLabels):
            return Rankings(self.server, contents.label_filter(condition)), self.count(condition)
        held = self.known_ids(condition)
        return Rankings(self.server, f"id in {held.tolist()}"), len(held)


def _width(bits: int) -> int:
    """Bits of the stored vector: Milvus needs whole bytes, and zeros at the end change no distance."""
    return -(-bits // 8) * 8


def _vectors(packed: NDArray[np.uint8]) -> list[bytes]:
    return [bytes(row) for row in packed]
