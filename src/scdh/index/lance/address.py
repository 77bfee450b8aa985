"""The address of a LanceDB table: ``lance:FOLDER/table``, where the folder may be on object storage.

| text | meaning |
|---|---|
| ``lance:vectors/photos`` | the table ``photos`` in the folder ``vectors`` |
| ``lance:s3://bucket/vectors/photos`` | the same in a bucket; also ``gs://`` and ``az://`` |

Object storage is reached with the settings of its own tools, such as ``AWS_ACCESS_KEY_ID`` in the environment.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from scdh.errors import ConfigError

_ADDRESS = re.compile(r"lance:(?P<folder>.*[^/]|)/(?P<table>[A-Za-z0-9_.-]+)")


@dataclass(frozen=True)
class Address:
    """A table: the text of its address, the folder as LanceDB takes it, and the name of the table.

    ``path`` is the folder as a path; None on object storage.
    """

    text: str
    folder: str
    table: str
    path: Path | None


def parse_address(text: str) -> Address:
    """The parts of an address.

    >>> parse_address("lance:s3://bucket/vectors/photos").folder
    's3://bucket/vectors'
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ConfigError(
            "The address of a LanceDB table must be lance:FOLDER/table, and the name of the table may have letters, "
            f"digits, . _ and -, got {text!r}."
        )
    folder = match["folder"] or "/"
    is_remote = "://" in folder
    return Address(text, folder, match["table"], None if is_remote else Path(folder).absolute())
