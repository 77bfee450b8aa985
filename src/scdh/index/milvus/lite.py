"""Files of milvus-lite: a process of its own serves each one, for all connections of this program."""

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import Any

from scdh.errors import ConfigError

WAIT = 0.2
START_SECONDS = 30.0  # for the process that serves a file, on a busy machine

# How many connections of this process use each file: the last one to close releases it.
_users: Counter[Path] = Counter()
_lock = threading.Lock()


def open_client(file: Path, seconds: float) -> Any:
    """A client of pymilvus for a file.

    The server of a program that was killed goes on for a moment and keeps the file, so this is tried for ``seconds``.
    """
    _import_lite()
    from milvus_lite.server_manager import server_manager_instance
    from pymilvus import MilvusClient
    from pymilvus.exceptions import MilvusException

    give_up, file = time.monotonic() + seconds, file.resolve()
    seconds = max(seconds, START_SECONDS)
    with _lock, _no_logging():
        if not _users[file] and str(file) in server_manager_instance._servers:
            _users[file] += 1  # a client of pymilvus that this program made itself, which must not be ended here
        while True:
            cause: Exception | None = None
            is_free = bool(_users[file]) or not _is_used_elsewhere(file)
            if is_free:
                try:
                    client = MilvusClient(uri=str(file), timeout=seconds)
                    _users[file] += 1
                    return client
                except (MilvusException, RuntimeError) as error:
                    cause = error
                if not _users[file]:
                    server_manager_instance.release_server(str(file))  # one that started and failed later
            if time.monotonic() > give_up or not _may_be_a_database(file):
                if not is_free:
                    reason = "another program has it open"
                elif _may_be_a_database(file):
                    reason = f"milvus-lite did not answer within {seconds:g} seconds"
                else:
                    reason = "it is not a file of milvus-lite"
                raise ConfigError(f"{file} cannot be opened: {reason}.") from cause
            time.sleep(WAIT)


def release(file: Path) -> None:
    """Stop the process in which milvus-lite serves a file; until then no other program can open it."""
    from milvus_lite.server_manager import server_manager_instance

    file = file.resolve()  # as milvus-lite does: a link and what it leads to are one file with one server
    with _lock:
        _users[file] -= 1
        if _users[file] <= 0:
            del _users[file]
            server_manager_instance.release_server(str(file))


def _is_used_elsewhere(file: Path) -> bool:
    """Whether another program holds the lock of milvus-lite on this file.

    Asked before milvus-lite tries, because after a rejection it removes the lock file of the other program, and the
    next try would open the same file a second time. Never asked while this program has the file: to close the lock file
    would give up its lock.
    """
    import fcntl  # missing on Windows, where there is no milvus-lite either

    try:
        with (file.parent / f".{file.name}.lock").open("r+") as opened:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _may_be_a_database(file: Path) -> bool:
    """Whether a file begins like one of SQLite, as those of milvus-lite do; a new one is empty at first."""
    try:
        with file.open("rb") as opened:
            start = opened.read(16)
    except OSError:
        return False
    return start in (b"", b"SQLite format 3\0")


@contextmanager
def _no_logging() -> Iterator[None]:
    """milvus-lite logs each error that it raises as well."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.setLevel(level)


def _import_lite() -> None:
    try:
        version = metadata.version("milvus-lite")
    except metadata.PackageNotFoundError:
        raise ConfigError("A local Milvus file needs milvus-lite; pip install 'scdh[milvus]' brings it.") from None
    if int(version.split(".")[0]) >= 3:
        raise ConfigError(f"milvus-lite {version} has no binary vectors, but 2.5 has: pip install 'milvus-lite<3'.")
    if "milvus_lite" in sys.modules or util.find_spec("pkg_resources") is not None:
        return
    # milvus-lite 2.5 needs pkg_resources only to read its version; setuptools 82 removed that module.
    substitute = ModuleType("pkg_resources")
    vars(substitute).update(DistributionNotFound=metadata.PackageNotFoundError, get_distribution=metadata.distribution)
    sys.modules["pkg_resources"] = substitute
    try:
        import milvus_lite  # noqa: F401
    finally:
        del sys.modules["pkg_resources"]
