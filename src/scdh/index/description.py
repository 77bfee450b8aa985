"""The text with which a collection or table says that it is an index: its format, bits and metadata, as JSON."""

import json
import re
from collections.abc import Mapping

from scdh.errors import CodesError
from scdh.storage.tensor_files import RESERVED

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
        description = json.loads(text or "")
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
