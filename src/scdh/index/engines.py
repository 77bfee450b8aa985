"""The search engines that an address can name; each is a package of its own, imported when it is first needed."""

from importlib import import_module
from typing import cast

from scdh.errors import ConfigError
from scdh.index.hamming import HammingIndex
from scdh.index.search_index import SearchEngine, SearchIndex

# Package and class by the scheme of an address.
_ENGINES = {
    "lance": ("scdh.index.lance", "LanceIndex"),
    "milvus": ("scdh.index.milvus", "MilvusIndex"),
    "milvuss": ("scdh.index.milvus", "MilvusIndex"),
    "postgresql": ("scdh.index.postgres", "PostgresIndex"),
}
# For messages and help texts.
ADDRESSES = (
    "milvus://host/collection, milvus:FILE.db/collection, postgresql://host/database/table or lance:FOLDER/table"
)


def is_engine_address(text: object) -> bool:
    """Whether this text is the address of an engine, not the path of an index file.

    >>> is_engine_address("milvus://host/photos"), is_engine_address("photos.index")
    (True, False)
    """
    return isinstance(text, str) and text.partition(":")[0] in _ENGINES and ":" in text


def engine_of(address: str) -> type[SearchEngine]:
    """The class for this address.

    Raises:
        ConfigError: if no engine has such addresses.
    """
    if not is_engine_address(address):
        raise ConfigError(f"The address of a search engine is {ADDRESSES}, got {address.partition('//')[0]!r}….")
    module, name = _ENGINES[address.partition(":")[0]]
    return cast(type[SearchEngine], getattr(import_module(module), name))


def open_index(name: str) -> SearchIndex:
    """The index at the address of an engine, or in an index file.

    Raises:
        ScdhError: if it does not exist or cannot be read.
    """
    return engine_of(name).open(name) if is_engine_address(name) else HammingIndex.load(name)
