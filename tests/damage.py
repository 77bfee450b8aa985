"""What happens to files: flipped bits, a kill at a rename, a disk that is full. Used by tests of all kinds of files."""

import builtins
import errno
import io
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

KILLED, NOT_REACHED = 77, 78
STEPS = ("replace", "rename", "unlink", "remove")  # of os: what makes the change of a file final


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """The same bytes with one bit changed."""
    changed = bytearray(content)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def each_flip(path: Path, count: int, seed: int = 0) -> Iterator[int]:
    """Change one random bit of the file, yield the number of the trial, and so on; at the end the file is as before."""
    whole, rng = path.read_bytes(), np.random.default_rng(seed)
    try:
        for trial in range(count):
            path.write_bytes(flipped(whole, rng))
            yield trial
    finally:
        path.write_bytes(whole)


def in_child(action: Callable[[], object]) -> int:
    """Run an action in a fork; its exit code: 0 if it ended, 1 after an exception."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            action()
            code = 0
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise RuntimeError("the child did not end within a minute")
        time.sleep(0.002)


def killed_at(action: Callable[[], object], step: int, *, after: bool) -> bool:
    """Run an action in a fork that ends at once at its ``step``-th rename or removal of a file, or right after it.

    Returns whether it was killed; False: the action has fewer steps, and ended.
    """

    def with_kill() -> None:
        count = 0

        def killing(function: Callable[..., object]) -> Callable[..., object]:
            def call(*arguments: object, **options: object) -> object:
                nonlocal count
                count += 1
                if count == step and not after:
                    os._exit(KILLED)
                result = function(*arguments, **options)
                if count == step:
                    os._exit(KILLED)
                return result

            return call

        for name in STEPS:
            setattr(os, name, killing(getattr(os, name)))
        action()

    code = in_child(with_kill)
    if code not in (0, KILLED):
        raise RuntimeError(f"the action ended with {code} before step {step}")
    return code == KILLED


def full_at(action: Callable[[], object], call: int) -> int | None:
    """Exit code of an action in a fork in which the disk is full at the ``call``-th write, sync or rename.

    None: the action has fewer of them, and ended.
    """

    def limited() -> None:
        count = 0

        def failing(function: Callable[..., Any]) -> Callable[..., Any]:
            def call_or_fail(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count == call:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return function(*arguments, **options)

            return call_or_fail

        def opened(*arguments: Any, **options: Any) -> Any:
            handle = plain_open(*arguments, **options)
            return _FailingFile(handle, failing(handle.write)) if handle.writable() else handle

        plain_open = builtins.open
        builtins.open = io.open = opened  # type: ignore[assignment]
        for name in ("write", "fsync", "replace"):
            setattr(os, name, failing(getattr(os, name)))
        try:
            action()
        except SystemExit as ending:
            raise SystemExit(NOT_REACHED if count < call else ending.code) from None
        if count < call:
            raise SystemExit(NOT_REACHED)

    code = in_child(limited)
    return None if code == NOT_REACHED else code


class _FailingFile:
    """A file whose writes may fail."""

    def __init__(self, handle: Any, write: Callable[..., Any]) -> None:
        self._handle, self.write = handle, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def __enter__(self) -> "_FailingFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()


def full_after(action: Callable[[], object], size: int) -> int:
    """Exit code of an action in a fork in which no file can grow beyond ``size`` bytes, as on a full disk."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then writing gives an OSError
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        action()

    return in_child(limited)
