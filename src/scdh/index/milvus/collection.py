"""The collection that holds an index: its two fields, and a description that says what it is."""

import json
import re
from collections.abc import Mapping
from typing import Any

from scdh.errors import CodesError
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.tensor_files import RESERVED

_FORMAT = {"format": "scdh-index", "version": "1"}
# Milvus loads a collection from its storage before it answers; a large one takes minutes.
_LOAD_SECONDS = 600.0


def make_collection(server: MilvusServer, bits: int, metadata: Mapping[str, str]) -> None:
    """An empty collection. What it is stands in the description, the one place that milvus-lite keeps as well."""
    from pymilvus import DataType

    description = json.dumps({**metadata, **_FORMAT, "bits": str(bits)})
    schema = server.client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=_width(bits))
    # Strong: a search must see what was written before it.
    server.call("create_collection", schema=schema, consistency_level="Strong", tries=WRITE_TRIES)


def open_collection(server: MilvusServer) -> tuple[int, dict[str, str]]:
    """Bits and metadata of a collection of ours, which is ready to be searched after this."""
    found = server.call("describe_collection")
    words = _understood(found.get("description", ""))
    if words is None or words["format"] != _FORMAT["format"]:
        raise CodesError(f"The collection at {server.address.shown} is not an index of scdh, by its description.")
    if words["version"] != _FORMAT["version"]:
        raise CodesError(
            f"The collection at {server.address.shown} is an index of version {words['version']!r}, "
            f"but only {_FORMAT['version']!r} can be read."
        )
    bits = int(words["bits"])
    widths = [entry["params"].get("dim") for entry in found["fields"] if entry["name"] == "code"]
    if [int(width or 0) for width in widths] != [_width(bits)]:
        raise CodesError(
            f"The collection at {server.address.shown} says that it holds codes of {bits} bits, "
            f"but its field 'code' is not {_width(bits)} bits wide."
        )
    if not server.call("list_indexes"):
        # It was just made, or its making was interrupted here.
        parameters = server.client.prepare_index_params()
        parameters.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
        server.call("create_index", index_params=parameters, sync=False, tries=WRITE_TRIES)
    server.call("load_collection", seconds=_LOAD_SECONDS)
    return bits, {key: value for key, value in words.items() if key not in RESERVED}


def _width(bits: int) -> int:
    """Bits of the stored vector: Milvus wants whole bytes, and zeros at the end change no distance."""
    return -(-bits // 8) * 8


def _understood(description: Any) -> dict[str, str] | None:
    """The words of a description of ours, None for any other."""
    try:
        words = json.loads(description)
    except (TypeError, ValueError):
        return None
    if not isinstance(words, dict) or not all(isinstance(words.get(key), str) for key in RESERVED):
        return None
    return words if re.fullmatch("[0-9]{1,9}", words["bits"]) else None
