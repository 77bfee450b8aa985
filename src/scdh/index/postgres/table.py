"""A PostgreSQL table as the store of an index: ``id``, ``code`` bit(n), ``name`` and ``labels``.

Values are parameters, names are quoted identifiers. Distances are cast to integers, so an HNSW or IVFFlat index of the
table, which would miss neighbours, never answers a search.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError, ConfigError
from scdh.index.engine_store import Condition, Ranking
from scdh.index.items import Items, WithLabels, stored_items
from scdh.index.postgres.address import Address
from scdh.index.postgres.server import PostgresServer, to_bits

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

LEAST_VECTOR = (0, 7)  # the first pgvector with Hamming distances
_TEXT_TYPE = 25  # the number of the type text, the same in every server


class PostgresTable:
    """One table, through one connection; ``Store`` documents the methods."""

    def __init__(self, address: Address) -> None:
        self.shown = address.text
        self._server = PostgresServer(address)
        self._name, self._bits = address.table, 0
        self._schema = "public"  # of pgvector

    def close(self) -> None:
        self._server.close()

    def exists(self) -> bool:
        rows = self._read("SELECT to_regclass(%(name)s) IS NOT NULL", name=self._quoted_name())
        return bool(rows[0][0])

    def make(self, bits: int, description: str) -> None:
        from psycopg.sql import Literal

        with self._server.writing() as connection:
            self._make_extension(connection)
            columns = "id bigint PRIMARY KEY, code bit({bits}) NOT NULL, name text NOT NULL, labels text[] NOT NULL"
            connection.execute(self._sql(f"CREATE TABLE {{table}} ({columns})", bits=Literal(bits)))
            # A comment takes no parameters, so the client quotes the text.
            connection.execute(self._sql("COMMENT ON TABLE {table} IS {text}", text=Literal(description)))

    def description(self) -> str | None:
        rows = self._read("SELECT obj_description(to_regclass(%(name)s), 'pg_class')", name=self._quoted_name())
        return rows[0][0]

    def prepare(self, bits: int) -> None:
        self._schema = self._server.read(self._check_extension)
        types = self._read(
            "SELECT format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
            "WHERE attrelid = to_regclass(%(name)s) AND attname = 'code'",
            name=self._quoted_name(),
        )
        if types != [(f"bit({bits})", True)]:
            raise CodesError(
                f"The table at {self.shown} says that it holds codes of {bits} bits, "
                f"but its column 'code' is not bit({bits}) NOT NULL."
            )
        self._bits = bits

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._server.writing() as connection:
            # Other programs can read, but not write, until the end of the transaction.
            connection.execute(self._sql("LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"))
            yield

    def count(self, condition: Condition = None) -> int:
        return int(self._read("SELECT count(*) FROM {table} WHERE {only}", condition)[0][0])

    def ids(self) -> NDArray[np.int64]:
        return _ids(self._read("SELECT id FROM {table} ORDER BY id"))

    def largest_id(self) -> int:
        return int(self._read("SELECT coalesce(max(id), -1) FROM {table}")[0][0])

    def known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return _ids(self._read("SELECT id FROM {table} WHERE {only}", ids))

    def known_codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        rows = self._read("SELECT id, code FROM {table} WHERE {only} ORDER BY id", ids)
        packed = np.frombuffer(b"".join(code for _, code in rows), np.uint8)
        return _ids(rows), packed.reshape(len(rows), -(-self._bits // 8))

    def known_items(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Items]:
        rows = self._read("SELECT id, name, labels FROM {table} WHERE {only} ORDER BY id", ids)
        return _ids(rows), stored_items([name for _, name, _ in rows], [labels for _, _, labels in rows])

    def named(self, names: list[str]) -> dict[int, str]:
        return dict(self._read("SELECT id, name FROM {table} WHERE name = ANY(%(names)s::text[])", names=names))

    def nearest(self, packed: NDArray[np.uint8], k: int, condition: Condition) -> list[Ranking]:
        statement = "SELECT id, {distance} AS distance FROM {table} WHERE {only} ORDER BY distance, id LIMIT %(k)s"
        return [_ranking(rows) for rows in self._read_each(statement, packed, condition, k=k)]

    def within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> list[Ranking]:
        statement = (
            "SELECT id, {distance} AS distance FROM {table} WHERE {distance} <= %(radius)s AND {only} "
            "ORDER BY distance, id"
        )
        return [_ranking(rows) for rows in self._read_each(statement, packed, condition, radius=radius)]

    def count_within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> NDArray[np.int64]:
        statement = "SELECT count(*) FROM {table} WHERE {distance} <= %(radius)s AND {only}"
        answers = self._read_each(statement, packed, condition, radius=radius)
        return np.array([rows[0][0] for rows in answers], np.int64)

    def write(self, ids: NDArray[np.int64], packed: NDArray[np.uint8], items: Items, compare: bool) -> int:
        with self._server.writing() as connection, connection.cursor() as cursor:
            cursor.execute(self._sql("CREATE TEMP TABLE scdh_incoming (LIKE {table}) ON COMMIT DROP"))
            with cursor.copy("COPY scdh_incoming (id, code, name, labels) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(copy_block(ids, packed, self._bits, items))
            cursor.execute(
                self._sql(
                    "INSERT INTO {table} AS held SELECT id, code, name, labels FROM scdh_incoming "
                    "ON CONFLICT (id) DO UPDATE SET code = excluded.code, name = excluded.name, "
                    "labels = excluded.labels WHERE (held.code, held.name, held.labels) "
                    "IS DISTINCT FROM (excluded.code, excluded.name, excluded.labels)"
                )
            )
            written = cursor.rowcount
            cursor.execute("DROP TABLE scdh_incoming")
        return written

    def remove(self, ids: NDArray[np.int64]) -> None:
        with self._server.writing() as connection:
            connection.execute(self._sql("DELETE FROM {table} WHERE id = ANY(%s::bigint[])"), [ids.tolist()])

    def _sql(self, statement: str, **parts: Any) -> "Composed":
        from psycopg.sql import SQL, Identifier

        return SQL(statement).format(table=Identifier(*self._name), **parts)  # type: ignore[arg-type]

    def _quoted_name(self) -> str:
        return self._server.read(lambda connection: self._sql("{table}").as_string(connection))

    def _read(self, statement: str, condition: Condition = None, **values: Any) -> list[Any]:
        return self._server.read(lambda connection: self._rows(connection, statement, condition, values))

    def _read_each(
        self, statement: str, packed: NDArray[np.uint8], condition: Condition, **values: Any
    ) -> list[list[Any]]:
        """The rows for each query; all see the same state."""
        queries = [to_bits(row.tobytes(), self._bits) for row in packed]

        def work(connection: "Connection") -> list[list[Any]]:
            return [self._rows(connection, statement, condition, {**values, "query": query}) for query in queries]

        return self._server.read(work)

    def _rows(
        self, connection: "Connection", statement: str, condition: Condition, values: dict[str, Any]
    ) -> list[Any]:
        from psycopg.sql import SQL, Identifier

        only = SQL("TRUE")
        if isinstance(condition, WithLabels):
            only, values = SQL("labels && %(only)s::text[]"), {**values, "only": list(condition.labels)}
        elif condition is not None:
            only, values = SQL("id = ANY(%(only)s::bigint[])"), {**values, "only": condition.tolist()}
        distance = SQL("(code OPERATOR({}.<~>) %(query)s)::int").format(Identifier(self._schema))
        with connection.cursor(binary=True) as cursor:
            return cursor.execute(self._sql(statement, only=only, distance=distance), values).fetchall()

    def _make_extension(self, connection: "Connection") -> None:
        from psycopg import Error

        try:
            with connection.transaction():
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except Error as error:
            raise self._extension_error(f"it could not be created ({error.diag.message_primary})") from error
        self._check_extension(connection)

    def _check_extension(self, connection: "Connection") -> str:
        """The schema of pgvector."""
        found = connection.execute(
            "SELECT extversion, nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
            "WHERE extname = 'vector'"
        ).fetchone()
        if found is None:
            raise self._extension_error("it is missing")
        version, schema = found
        if tuple(int(part) for part in version.split(".")[:2]) < LEAST_VECTOR:
            raise self._extension_error(f"it has version {version}")
        return str(schema)

    def _extension_error(self, reason: str) -> ConfigError:
        return ConfigError(
            f"The database of {self.shown} needs the extension pgvector 0.7 or newer, but {reason}; install it on "
            "the server and run CREATE EXTENSION vector as an administrator."
        )


def copy_block(ids: NDArray[np.int64], packed: NDArray[np.uint8], bits: int, items: Items) -> bytes:
    """The rows (id, code, name, labels) in PostgreSQL's binary COPY format."""
    width = packed.shape[1]
    head = struct.Struct("!hiqii")  # number of fields, size of the id, id, size of the code, bits
    arrays: dict[tuple[str, ...], bytes] = {}
    parts = [b"PGCOPY\n\xff\r\n\0", bytes(8)]
    for row_id, code, name, own in zip(ids.tolist(), packed, items.names, items.labels, strict=True):
        labels = tuple(own)
        if labels not in arrays:
            arrays[labels] = _sized(_text_array(labels))
        parts += (head.pack(4, 8, row_id, 4 + width, bits), code.tobytes(), _sized(name.encode()), arrays[labels])
    return b"".join((*parts, b"\xff\xff"))


def _text_array(texts: Sequence[str]) -> bytes:
    """The binary form of text[]."""
    if not texts:
        return struct.pack("!iii", 0, 0, _TEXT_TYPE)
    return struct.pack("!iiiii", 1, 0, _TEXT_TYPE, len(texts), 1) + b"".join(_sized(text.encode()) for text in texts)


def _sized(value: bytes) -> bytes:
    return struct.pack("!i", len(value)) + value


def _ids(rows: Sequence[Any]) -> NDArray[np.int64]:
    return np.fromiter((row[0] for row in rows), np.int64, len(rows))


def _ranking(rows: Sequence[Any]) -> Ranking:
    return _ids(rows), np.fromiter((row[1] for row in rows), np.int32, len(rows))
