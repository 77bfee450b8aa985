"""An index in a LanceDB table, in files or on object storage: the same hits as those of ``HammingIndex``."""

from scdh.index.engine_index import EngineIndex
from scdh.index.lance.address import parse_address
from scdh.index.lance.table import LanceTable
from scdh.index.search_index import Abilities

__all__ = ["LanceIndex"]


class LanceIndex(EngineIndex):
    """An exact index in a table at ``lance:FOLDER/table``; :class:`EngineIndex` documents the calls.

    One program at a time may write, because LanceDB has no unique keys; any number may read.
    """

    abilities = Abilities(lists_ids=True, counts=False, byte_tables=False, names=True)
    ENGINE = "LanceDB"

    @classmethod
    def _connect(cls, uri: str) -> LanceTable:
        return LanceTable(parse_address(uri))
