"""The connection to Milvus: requests that are tried again while the trouble may pass, and errors of one sentence.

Every request made here can be made twice without harm: reading, writing by id, deleting by id. So one whose answer
got lost is simply sent again.
"""

import logging
import sys
import threading
import time
from collections import Counter
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import Any

from scdh.errors import CodesError, ConfigError, ScdhError
from scdh.index.milvus.uri import TOKEN_VARIABLE, Address

CONNECT_SECONDS = 5.0
CALL_SECONDS = 30.0
READ_TRIES = 2
WRITE_TRIES = 6
FIRST_WAIT = 0.5
# Milvus's own numbers for: not available now, too many requests, over the rate limit.
_PASSING = (2, 4, 8)
_PASSING_STATES = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED")
_REFUSED_STATES = ("UNAUTHENTICATED", "PERMISSION_DENIED")

# How many connections of this process use each local file: the last one to close gives the file free.
_users: Counter[Path] = Counter()
_lock = threading.Lock()


class MilvusServer:
    """One open connection."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.client = _connect(address)
        self._closed = False

    def call(self, method: str, *, tries: int = READ_TRIES, seconds: float = CALL_SECONDS, **arguments: Any) -> Any:
        """What the client's method answers for our collection.

        Passing trouble (unreachable, too busy, too late) is waited out, each time twice as long; wrong arguments and
        a wrong password are refused at once.
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
                if left == 0 or not _may_pass(error):
                    raise _sentence(error, self.address, method) from error
            time.sleep(wait)
            wait *= 2
        raise ValueError("tries must be at least 1")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.client.close()
        if self.address.file is not None:
            _release(self.address.file)


def _connect(address: Address) -> Any:
    try:
        import grpc
        from pymilvus import MilvusClient
        from pymilvus.exceptions import MilvusException
    except ImportError as error:
        raise ConfigError(
            f"Milvus needs the package pymilvus, which does not load ({error}); pip install 'scdh[milvus]' brings it."
        ) from error
    # It prints the trace of every failed request, also of those that are tried again; our errors say it in a sentence.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    if address.file is not None:
        return _open_file(address.file)
    try:
        return MilvusClient(uri=address.url, token=address.token, db_name=address.database, timeout=CONNECT_SECONDS)
    except (MilvusException, grpc.RpcError) as error:
        # pymilvus calls every failure to connect the same; what the server said is its cause.
        said = error.__cause__ or error
        if _refused(said):
            raise _sentence(said, address, "connect") from error
        if address.database and "database" in _words(said).lower():
            raise ConfigError(f"Milvus at {address.shown} has no database {address.database!r}.") from error
        raise ConfigError(
            f"No Milvus server answered at {address.shown} within {CONNECT_SECONDS:g} seconds; "
            "check host and port, and whether it wants TLS (milvuss://)."
        ) from error


def _open_file(file: Path) -> Any:
    _import_lite()
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.CRITICAL)  # milvus-lite would print its own words beside ours
    try:
        with _lock:
            client = MilvusClient(uri=str(file), timeout=CONNECT_SECONDS)
            _users[file] += 1
        return client
    except (MilvusException, RuntimeError) as error:
        raise ConfigError(
            f"{file} cannot be opened: another program has it open, or it is no file of milvus-lite."
        ) from error
    finally:
        root.setLevel(level)


def _release(file: Path) -> None:
    """milvus-lite serves a file from a process of its own until told to stop; other programs wait for that."""
    from milvus_lite.server_manager import server_manager_instance

    with _lock:
        _users[file] -= 1
        if _users[file] <= 0:
            del _users[file]
            server_manager_instance.release_server(str(file))


def _import_lite() -> None:
    try:
        version = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError:
        raise ConfigError("A local Milvus file needs milvus-lite; pip install 'scdh[milvus]' brings it.") from None
    if int(version.split(".")[0]) >= 3:
        raise ConfigError(f"milvus-lite {version} has no binary vectors, but 2.5 has: pip install 'milvus-lite<3'.")
    if "milvus_lite" in sys.modules or util.find_spec("pkg_resources") is not None:
        return
    # milvus-lite 2.5 asks pkg_resources for its own version and for nothing else; setuptools 82 took that module out.
    stand_in = ModuleType("pkg_resources")
    vars(stand_in).update(DistributionNotFound=metadata.PackageNotFoundError, get_distribution=metadata.distribution)
    sys.modules["pkg_resources"] = stand_in
    try:
        import milvus_lite  # noqa: F401
    finally:
        del sys.modules["pkg_resources"]


def _state(error: Any) -> str:
    """The name of the gRPC state, which is the code of an RpcError and sometimes that of a MilvusException."""
    code = error.code() if callable(getattr(error, "code", None)) else getattr(error, "code", None)
    return str(getattr(code, "name", ""))


def _may_pass(error: Any) -> bool:
    return _state(error) in _PASSING_STATES or getattr(error, "code", None) in _PASSING


def _refused(error: Any) -> bool:
    return _state(error) in _REFUSED_STATES or "auth check" in _words(error).lower()


def _words(error: Any) -> str:
    text = error.details() if callable(getattr(error, "details", None)) else getattr(error, "message", "")
    return str(text or "").strip()


def _sentence(error: Any, address: Address, method: str) -> ScdhError:
    words = (_words(error).splitlines() or ["it gave no reason"])[0].rstrip(". ")
    if _refused(error):
        return ConfigError(
            f"Milvus at {address.shown} did not accept the user or the password; "
            f"give user:password in {TOKEN_VARIABLE} or before the host."
        )
    if _may_pass(error):
        return ConfigError(f"Milvus at {address.shown} could not answer {method} now: {words}.")
    return CodesError(f"Milvus at {address.shown} refused {method}: {words}.")
