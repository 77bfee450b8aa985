"""The collection that holds an index: its two fields, and a description of its contents."""

import json
import re
from collections.abc import Mapping
from typing import Any

from scdh.errors import CodesError
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.storage.tensor_files import RESERVED

_FORMAT = {"format": "scdh-index", "version": "1"}
# Milvus loads a collection from its storage before the first search; a large one takes minutes.
_LOAD_SECONDS = 600.0


def make_collection(server: MilvusServer, bits: int, metadata: Mapping[str, str]) -> None:
    """Create an empty collection; bits and metadata are in its description, which milvus-lite stores as well."""
    from pymilvus import DataType

    description = json.dumps({**metadata, **_FORMAT, "bits": str(bits)})
    schema = server.client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("code", DataType.BINARY_VECTOR, dim=_width(bits))
    # Strong: a search must see what was written before it.
    server.call("create_collection", schema=schema, consistency_level="Strong", tries=WRITE_TRIES)


def open_collection(server: MilvusServer) -> tuple[int, dict[str, str]]:
    """Bits and metadata of a collection that ``make_collection`` made; after this it can be searched."""
    schema = server.call("describe_collection")
    description = _parse_description(schema.get("description", ""))
    if description is None or description["format"] != _FORMAT["format"]:
        raise CodesError(f"The collection at {server.address.text} is not an index of scdh, by its description.")
    if description["version"] != _FORMAT["version"]:
        raise CodesError(
            f"The collection at {server.address.text} is an index of version {description['version']!r}, "
            f"but only {_FORMAT['version']!r} can be read."
        )
    bits = int(description["bits"])
    widths = [entry["params"].get("dim") for entry in schema["fields"] if entry["name"] == "code"]
    if [int(width or 0) for width in widths] != [_width(bits)]:
        raise CodesError(
            f"The collection at {server.address.text} says that it holds codes of {bits} bits, "
            f"but its field 'code' is not {_width(bits)} bits wide."
        )
    if not server.call("list_indexes"):
        # The collection is new, or its creation was interrupted before this step.
        parameters = server.client.prepare_index_params()
        parameters.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
        server.call("create_index", index_params=parameters, sync=False, tries=WRITE_TRIES)
    server.call("load_collection", seconds=_LOAD_SECONDS)
    return bits, {key: value for key, value in description.items() if key not in RESERVED}


def _width(bits: int) -> int:
    """Bits of the stored vector: Milvus needs whole bytes, and zeros at the end change no distance."""
    return -(-bits // 8) * 8


def _parse_description(text: Any) -> dict[str, str] | None:
    """The values of a description that ``make_collection`` wrote, None for any other text."""
    try:
        description = json.loads(text)
    except (TypeError, ValueError):
        return None
    if not isinstance(description, dict) or not all(isinstance(description.get(key), str) for key in RESERVED):
        return None
    return description if re.fullmatch("[0-9]{1,9}", description["bits"]) else None
