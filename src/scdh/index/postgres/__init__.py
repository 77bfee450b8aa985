"""An index in a PostgreSQL table with pgvector: the same hits as those of ``HammingIndex``."""

from scdh.index.engine_index import EngineIndex
from scdh.index.postgres.address import parse_address
from scdh.index.postgres.table import PostgresTable
from scdh.index.search_index import Abilities

__all__ = ["PostgresIndex"]


class PostgresIndex(EngineIndex):
    """An exact index in a table at ``postgresql://host/database/table``; :class:`EngineIndex` documents the calls."""

    abilities = Abilities(lists_ids=True, counts=True, byte_tables=False, names=True)
    ENGINE = "PostgreSQL"

    @classmethod
    def _connect(cls, uri: str) -> PostgresTable:
        return PostgresTable(parse_address(uri))
