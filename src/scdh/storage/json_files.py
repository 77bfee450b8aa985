"""Small JSON files of runs, models and comparisons: written whole with a checksum; damage is one sentence."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdh.errors import DataError
from scdh.printable import json_text
from scdh.storage.checksums import is_intact, with_checksum
from scdh.storage.files import read_regular, replacing


def write_table(path: Path, content: Mapping[str, Any]) -> None:
    """Write ``content`` with its checksum in it, whole or not at all."""
    as_read = json.loads(json.dumps(content))  # keys become texts, which are sorted differently
    with replacing(path) as temporary:
        temporary.write_text(json_text(with_checksum(as_read), indent=1), "utf-8")


def read_table(path: Path, holds: str, remedy: str) -> dict[str, Any]:
    """Read what :func:`write_table` wrote; a file without a checksum was edited by hand and is accepted.

    Args:
        path: the file; one that is missing stays a FileNotFoundError.
        holds: what it should hold, for the message, such as "the scores of a run".
        remedy: what to do when it is damaged.

    Raises:
        DataError: if it is not a JSON table, or was changed since it was written.
    """
    try:
        content = parse_json(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise DataError(f"{str(path)!r} does not hold {holds}: {error}; {remedy}.") from None
    if not isinstance(content, dict):
        raise DataError(f"{str(path)!r} does not hold {holds}: it is not a table; {remedy}.")
    if not is_intact(content):
        raise DataError(
            f"{str(path)!r} was changed or damaged after it was written; {remedy} (if you changed it on purpose, "
            "remove its entry 'checksum')."
        )
    return content


def parse_json(data: bytes) -> Any:
    """The value that UTF-8 JSON stands for.

    Raises:
        ValueError: for any mistake, with a short reason.
    """
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg}, line {error.lineno})") from None


def read_entries(path: Path, holds: str, remedy: str, *names: str) -> dict[str, Any]:
    """As :func:`read_table`, of a table that must have the entries ``names``."""
    content = read_table(path, holds, remedy)
    for name in names:
        if name not in content:
            raise DataError(f"{str(path)!r} does not hold {holds}: it has no entry {name!r}; {remedy}.")
    return content
