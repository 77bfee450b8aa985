"""The connection to PostgreSQL: opened again after it broke, bits as bytes, and errors of one sentence."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from scdh.errors import CodesError, ConfigError, ScdhError
from scdh.extras import check_installed
from scdh.index.postgres.address import Address

if TYPE_CHECKING:
    from psycopg import Connection, Error

CONNECT_SECONDS = 10
_BIT_TYPE = 1560  # the number of the type bit(n), the same in every server

Result = TypeVar("Result")


class Bits(bytes):
    """A packed code after its number of bits (int32): the binary form of the type bit(n)."""


def to_bits(packed: bytes, bits: int) -> Bits:
    """A packed code as a parameter of a statement."""
    return Bits(struct.pack("!i", bits) + packed)


class PostgresServer:
    """One open connection, used by one thread at a time."""

    def __init__(self, address: Address) -> None:
        check_installed("A PostgreSQL table", "psycopg")
        self.address = address
        self._lock = RLock()
        self._writes = 0  # open blocks of ``writing``
        self._is_closed = False
        self._connection: Connection = _connect(address)

    def read(self, work: "Callable[[Connection], Result]") -> Result:
        """The result of a function that only reads, all of it one state; it is called again if the connection broke."""
        from psycopg import Error, IsolationLevel

        with self._lock:
            if self._writes:
                return work(self._connection)
            for is_last in (False, True):
                connection = self._open_connection()
                connection.isolation_level = IsolationLevel.REPEATABLE_READ
                try:
                    with connection.transaction():
                        return work(connection)
                except Error as error:
                    if is_last or not connection.closed:
                        raise _one_sentence(error, self.address) from error
        raise AssertionError

    @contextmanager
    def writing(self) -> "Iterator[Connection]":
        """A transaction; one within another is part of it."""
        from psycopg import Error

        with self._lock:
            connection = self._open_connection()
            if not self._writes:
                connection.isolation_level = None
            self._writes += 1
            try:
                with connection.transaction():
                    yield connection
            except Error as error:
                raise _one_sentence(error, self.address) from error
            finally:
                self._writes -= 1

    def _open_connection(self) -> "Connection":
        """The connection; a new one if it broke."""
        if self._is_closed:
            raise CodesError(f"The index at {self.address.text} was closed; open it again.")
        if self._connection.closed and not self._writes:
            self._connection = _connect(self.address)
        return self._connection

    def close(self) -> None:
        self._is_closed = True
        self._connection.close()


def _connect(address: Address) -> "Connection":
    import psycopg
    from psycopg.adapt import Dumper, Loader
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import Format

    class BitsDumper(Dumper):
        format, oid = Format.BINARY, _BIT_TYPE

        def dump(self, obj: Any) -> bytes:
            return bytes(obj)

    class BitsLoader(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> bytes:
            return bytes(data)[4:]

    try:
        settings = conninfo_to_dict(address.url)
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"The settings of {address.text} are not those of libpq: {_reason(error)}.") from None
    settings.setdefault("connect_timeout", CONNECT_SECONDS)
    settings.setdefault("fallback_application_name", "scdh")
    try:
        connection = psycopg.connect(autocommit=True, **settings)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise ConfigError(f"No connection to PostgreSQL at {address.text}: {_reason(error)}.") from error
    connection.adapters.register_dumper(Bits, BitsDumper)
    connection.adapters.register_loader(_BIT_TYPE, BitsLoader)
    return connection


def _reason(error: "Error") -> str:
    primary = error.diag.message_primary
    return " ".join((primary or str(error) or "it gave no reason").split()).rstrip(".")


def _one_sentence(error: "Error", address: Address) -> ScdhError:
    from psycopg import OperationalError
    from psycopg.errors import InsufficientPrivilege

    where = f"PostgreSQL at {address.text}"
    if isinstance(error, InsufficientPrivilege):
        return ConfigError(f"{where} does not allow this to the user: {_reason(error)}.")
    if isinstance(error, OperationalError):
        return ConfigError(f"{where} could not answer: {_reason(error)}; the same call can be repeated.")
    return CodesError(f"{where} rejected a statement: {_reason(error)}.")
