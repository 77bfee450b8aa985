"""The connection to Milvus: requests that are repeated after temporary failures, and errors of one sentence.

Every request made here can be made twice without harm: reading, writing by id, deleting by id. So a request whose
answer was lost is sent again.
"""

import logging
import time
from typing import Any

from scdh.errors import CodesError, ConfigError, ScdhError
from scdh.index.milvus import lite
from scdh.index.milvus.uri import TOKEN_VARIABLE, Address

CONNECT_SECONDS = 5.0
CALL_SECONDS = 120.0
READ_TRIES = 2
WRITE_TRIES = 6
FIRST_WAIT = 0.5
# Error numbers of Milvus: not available now, too many requests, over the rate limit.
_TEMPORARY = (2, 4, 8)
_TEMPORARY_STATES = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED")
_REFUSED_STATES = ("UNAUTHENTICATED", "PERMISSION_DENIED")


class MilvusServer:
    """One open connection."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client = _connect(address)
        self._closed = False

    def call(self, method: str, *, tries: int = READ_TRIES, seconds: float = CALL_SECONDS, **arguments: Any) -> Any:
        """The result of a method of the client for this collection.

        After a temporary failure (unreachable, too busy, too late) it waits, each time twice as long, and tries again;
        wrong arguments and a wrong password are rejected at once.
        """
        import grpc
        from pymilvus.exceptions import MilvusException

        wait = FIRST_WAIT
        for left in range(tries - 1, -1, -1):
            try:
                return getattr(self.client, method)(
                    collection_name=self.address.collection, timeout=seconds, **arguments
                )
            except (MilvusException, grpc.RpcError) as error:
                if left == 0 or not _is_temporary(error):
                    raise _one_sentence(error, self.address, method) from error
            time.sleep(wait)
            wait *= 2
        raise ValueError("tries must be at least 1")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.client.close()
        if self.address.file is not None:
            lite.release(self.address.file)


def _connect(address: Address) -> Any:
    try:
        import grpc
        from pymilvus import MilvusClient
        from pymilvus.exceptions import MilvusException
    except ImportError as error:
        raise ConfigError(
            f"Milvus needs the package pymilvus, which does not load ({error}); pip install 'scdh[milvus]' brings it."
        ) from error
    # pymilvus logs a trace of every failed request, also of repeated ones; errors here are one sentence.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    if address.file is not None:
        return lite.open_client(address.file, CONNECT_SECONDS)
    try:
        return MilvusClient(uri=address.url, token=address.token, db_name=address.database, timeout=CONNECT_SECONDS)
    except (MilvusException, grpc.RpcError) as error:
        # pymilvus raises the same error for every failure to connect; the answer of the server is its cause.
        cause = error.__cause__ or error
        if _is_rejection(cause):
            raise _one_sentence(cause, address, "connect") from error
        if address.database and "database" in _message(cause).lower():
            raise ConfigError(f"Milvus at {address.text} has no database {address.database!r}.") from error
        raise ConfigError(
            f"No Milvus server answered at {address.text} within {CONNECT_SECONDS:g} seconds; "
            "check host and port, and whether it needs TLS (milvuss://)."
        ) from error


def _state(error: Any) -> str:
    """The name of the gRPC state, which is the code of an RpcError and sometimes that of a MilvusException."""
    code = error.code() if callable(getattr(error, "code", None)) else getattr(error, "code", None)
    return str(getattr(code, "name", ""))


def _is_temporary(error: Any) -> bool:
    return _state(error) in _TEMPORARY_STATES or getattr(error, "code", None) in _TEMPORARY


def _is_rejection(error: Any) -> bool:
    return _state(error) in _REFUSED_STATES or "auth check" in _message(error).lower()


def _message(error: Any) -> str:
    text = error.details() if callable(getattr(error, "details", None)) else getattr(error, "message", "")
    return str(text or "").strip()


def _one_sentence(error: Any, address: Address, method: str) -> ScdhError:
    message = (_message(error).splitlines() or ["it gave no reason"])[0].rstrip(". ")
    if _is_rejection(error):
        return ConfigError(
            f"Milvus at {address.text} did not accept the user or the password; "
            f"give user:password in {TOKEN_VARIABLE} or before the host."
        )
    if _is_temporary(error):
        return ConfigError(f"Milvus at {address.text} could not answer {method} now: {message}.")
    return CodesError(f"Milvus at {address.text} rejected {method}: {message}.")
