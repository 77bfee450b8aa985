"""The address of a Milvus collection: a text that names the server or the local file, and the collection.

| text | meaning |
|---|---|
| ``milvus://host/photos`` | a server; its port is 19530 unless one is given, as in ``host:19531`` |
| ``milvus://user:password@host:19530/photos`` | with a user (``%40`` for @ and so on), or ``token@host`` |
| ``milvuss://host/photos`` | over TLS; its port is 443 unless one is given |
| ``milvus://host/shop/photos`` | the collection ``photos`` of the database ``shop`` |
| ``milvus:codes.db/photos``, ``milvus:/data/codes.db/photos``, ``milvus:///data/codes.db/photos`` | a local file |

Two slashes and then a name mean a server; anything else is the path of a file, whose name ends in ``.db``.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from scdh.errors import ConfigError

TOKEN_VARIABLE = "SCDH_MILVUS_TOKEN"

_SERVER = re.compile(
    r"(?P<scheme>milvuss?)://(?:(?P<token>[^@/]*)@)?(?P<host>[^/:@]+)(?::(?P<port>[0-9]{1,5}))?"
    r"/(?:(?P<database>[^/]+)/)?(?P<collection>[^/]+)"
)
_FILE = re.compile(r"milvus:(?://(?=/))?(?P<file>.*)/(?P<collection>[^/]+)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
# milvus-lite uses it in the name of a socket, which limits the length.
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,33}\.db")


@dataclass(frozen=True)
class Address:
    """A collection and how to reach it; ``text`` is the address without its password, for messages."""

    text: str
    collection: str
    url: str | None = None
    file: Path | None = None
    database: str = ""
    token: str = field(default="", repr=False)


def is_milvus_uri(text: object) -> bool:
    """Whether this text is the address of a Milvus collection, not the path of an index file.

    >>> is_milvus_uri("milvus://host/photos"), is_milvus_uri("milvus:codes.db/photos"), is_milvus_uri("photos.index")
    (True, True, False)
    """
    return isinstance(text, str) and text.startswith(("milvus:", "milvuss:"))


def parse_uri(text: str) -> Address:
    """The parts of an address; a wrong one is rejected with a message that has no password.

    >>> parse_uri("milvus://ann:secret@host/photos")
    Address(text='milvus://host:19530/photos', collection='photos', url='http://host:19530', file=None, database='')
    """
    if not is_milvus_uri(text):
        raise ConfigError(f"The address of a Milvus collection begins with milvus, got {_without_secret(str(text))!r}.")
    match = _SERVER.fullmatch(text) if re.match("milvuss?://[^/]", text) else _FILE.fullmatch(text)
    if match is None:
        raise ConfigError(
            "The address of a Milvus collection must be milvus://host:port/collection or milvus:file.db/collection, "
            f"got {_without_secret(text)!r}."
        )
    collection = _checked_name(match["collection"], "collection")
    if "file" in match.groupdict():
        return _file_address(Path(match["file"]), collection)
    secure = match["scheme"] == "milvuss"
    port = int(match["port"] or (443 if secure else 19530))
    if not 1 <= port <= 65535:
        raise ConfigError(f"The port of a Milvus server must be between 1 and 65535, got {port}.")
    database = _checked_name(match["database"], "database") if match["database"] else ""
    host_and_port = f"{match['host']}:{port}"
    return Address(
        text=f"{match['scheme']}://{host_and_port}/{f'{database}/' if database else ''}{collection}",
        collection=collection,
        url=f"{'https' if secure else 'http'}://{host_and_port}",
        database=database,
        token=unquote(match["token"] or "") or os.environ.get(TOKEN_VARIABLE, ""),
    )


def _file_address(file: Path, collection: str) -> Address:
    if not _FILE_NAME.fullmatch(file.name):
        raise ConfigError(
            "The name of a local Milvus file must end in .db, have at most 36 characters and only letters, digits, "
            f". _ and -, got {file.name!r}."
        )
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {file.parent} for the local Milvus file {file.name}.")
    return Address(text=f"milvus:{file}/{collection}", collection=collection, file=file.absolute())


def _checked_name(name: str, kind: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"The name of a Milvus {kind} may have letters, digits and _, with no digit first and up to 255 of them, "
            f"got {name!r}."
        )
    return name


def _without_secret(text: str) -> str:
    return re.sub("//.*@", "//…@", text)
