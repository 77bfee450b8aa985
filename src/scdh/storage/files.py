"""Write files whole or not at all: under a temporary name in the folder of the target, then rename."""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_UMASK = os.umask(0)  # can only be read by setting it
os.umask(_UMASK)


def _unique_name() -> str:
    """A different name for each process and thread, also on two machines that share a folder."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write a file to; on success it replaces ``path``, on failure it is removed.

    When this returns, the file survives a power cut: its bytes and the folder's entry are on disk. A symbolic link
    stays one, and the file that it points to is replaced. Every system failure is an OSError, even if safetensors
    writes the file.
    """
    check_replaceable(path)
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{_unique_name()}.tmp")
    try:
        yield temporary
        sync_file(temporary)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        else:
            set_default_mode(temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except Exception as error:
        # safetensors, which is written in Rust, has an error of its own for a full disk.
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or isinstance(error, OSError):
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(target)) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise an OSError for a pipe, socket or device: the rename would put a file in its place, such as of /dev/null."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file on disk", os.fspath(path))


def open_regular(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` that rejects pipes, sockets and devices, which could block a reader forever."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = "pipe" if stat.S_ISFIFO(mode) else "device"
    raise OSError(errno.EINVAL, f"it is not a file on disk but a {kind}", path)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file on disk; an OSError for anything else."""
    with open(path, "rb", opener=open_regular) as handle:
        return handle.read()


def sync_file(file: Path) -> None:
    """Wait until the bytes of a file are on disk."""
    with open(file, "rb") as handle:
        os.fsync(handle.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk: without it a power cut may undo a rename."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def leftovers(target: Path) -> list[Path]:
    """Temporary files of writers of ``target`` that were killed, or that are still writing."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9]+-[0-9a-f]{{8}}\.(tmp|old)")
    return [path for path in target.parent.iterdir() if pattern.fullmatch(path.name)] if target.parent.is_dir() else []


def remove_abandoned(target: Path) -> None:
    """Remove temporary files that killed writers of ``target`` left; those of the last hour may be in use."""
    for leftover in leftovers(target):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > 3600:
                leftover.unlink()


def set_default_mode(file: Path) -> None:
    """Make a file readable for others: safetensors creates files that only their owner may read."""
    file.chmod(0o666 & ~_UMASK)


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Yield whether this process holds the lock at ``path``, which only one process can hold.

    With ``wait`` it waits until the lock is free. The system frees the lock when the process ends, also by a kill.
    Where the system has no such locks (Windows) every process gets True, so work must be divided by hand there.
    """
    with open(path, "a+b", opener=open_regular) as handle:
        _lock_files.add(handle)
        try:
            yield _take_lock(handle, wait)
        finally:
            _lock_files.remove(handle)


def _take_lock(handle: BinaryIO, wait: bool) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _close_lock_files() -> None:
    """In a forked child, such as a decoding worker: a copy would keep the lock after a kill of the parent."""
    for handle in _lock_files:
        handle.close()


_lock_files: set[BinaryIO] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_lock_files)
