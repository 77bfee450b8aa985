"""The address of a PostgreSQL table: that of libpq with one more part at the end of its path.

| text | meaning |
|---|---|
| ``postgresql://host/shop/photos`` | the table ``photos`` of the database ``shop`` |
| ``postgresql://ann@host:5433/shop/photos?sslmode=require`` | with a user, a port and settings of libpq |
| ``postgresql:///shop/photos?host=/var/run/postgresql`` | through a Unix socket |
| ``postgresql://host/shop/archive/photos`` | the table ``photos`` of the schema ``archive`` |

The password may be in the address, in ``PGPASSWORD`` or in ``~/.pgpass``.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode

from scdh.errors import ConfigError

_ADDRESS = re.compile(
    r"postgresql://(?:(?P<user>[^@/?#]*)@)?(?P<host>[^@/?#]*)/(?P<path>[^?#]+)(?:\?(?P<query>[^#]*))?"
)
_MOST_BYTES = 63  # of a name; PostgreSQL would cut a longer one


@dataclass(frozen=True)
class Address:
    """A table and how to reach it."""

    text: str
    url: str = field(repr=False)
    table: tuple[str, ...]


def parse_address(text: str) -> Address:
    """The parts of an address; a wrong one is rejected with a message that has no password.

    >>> parse_address("postgresql://ann:secret@host/shop/photos")
    Address(text='postgresql://ann@host/shop/photos', table=('photos',))
    """
    match = _ADDRESS.fullmatch(text)
    names = [unquote(part) for part in match["path"].split("/")] if match else []
    if match is None or len(names) not in (2, 3) or not all(names):
        shown = re.sub("//.*@", "//…@", text.partition("?")[0])
        raise ConfigError(f"The address of a PostgreSQL table must be postgresql://host/database/table, got {shown!r}.")
    for name in names:
        if len(name.encode("utf-8", "replace")) > _MOST_BYTES or "\0" in name:
            raise ConfigError(
                f"A name in PostgreSQL has at most {_MOST_BYTES} bytes and no zero character, got {name!r}."
            )
    user = (match["user"] or "").partition(":")[0]
    settings = parse_qsl(match["query"] or "", keep_blank_values=True)
    path = match["path"].split("/")
    login, query = match["user"], match["query"]
    kept = urlencode([(key, value) for key, value in settings if "pass" not in key], safe="/")
    return Address(
        text=f"postgresql://{f'{user}@' if user else ''}{match['host']}/{match['path']}{f'?{kept}' if kept else ''}",
        url=f"postgresql://{f'{login}@' if login else ''}{match['host']}/{path[0]}{f'?{query}' if query else ''}",
        table=tuple(names[1:]),
    )
