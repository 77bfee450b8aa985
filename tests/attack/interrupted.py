"""Writers that are killed, or find the disk full, at every call that changes the file system.

A child process does the work and ends at the n-th such call, as by ``kill -9``, or gets "no space left" from it and
from all later ones. Afterwards what it wrote to must hold the old contents or the new ones, whole.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from scdh.errors import ScdhError
from tests.attack.samples import Work
from tests.attack.trials import Attack, Failed

CALLS = ("replace", "rename", "unlink", "rmdir", "mkdir", "fsync", "write", "ftruncate", "open")
KILLED, REFUSED, DONE, TRACE = 9, 3, 0, 4


def attacks(works: list[Work]) -> Iterator[Attack]:
    """Two attacks for each kind of work."""
    for work in works:
        for name, act in (("kill", _kill), ("full disk", _no_space)):
            yield Attack(f"{name}: {work.kind}", _trial_of(work, act))


def _trial_of(work: Work, act: Callable[[], None]) -> Callable[[Random], str]:
    scratch = work.folder.with_name(work.folder.name + "-trial")

    def prepared() -> Path:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(work.folder, scratch, symlinks=True)
        return scratch

    old = work.read(prepared())
    calls = _count_calls(work, prepared())
    new = work.read(scratch)

    def trial(random: Random) -> str:
        place = prepared()
        code = _in_child(work, place, random.randrange(calls), act)
        if code == TRACE:
            raise Failed(f"{work.kind} ended in a trace")
        try:
            contents = work.read(place)
        except ScdhError as error:
            raise Failed(f"after {work.kind} was interrupted its file cannot be read: {error}") from None
        if contents not in (old, new):
            raise Failed(f"after {work.kind} was interrupted the contents are neither the old nor the new ones")
        if code == DONE and contents != new:
            raise Failed(f"{work.kind} said that it was done, but the contents are the old ones")
        work.do(place)  # what was left behind must not stand in the way of the next writer
        if work.read(place) != new:
            raise Failed(f"{work.kind} after an interrupted one did not give the new contents")
        return "old contents" if contents == old else "new contents"

    return trial


def _count_calls(work: Work, place: Path) -> int:
    count = 0

    def add() -> None:
        nonlocal count
        count += 1

    with _patched(add):
        work.do(place)
    return count


def _in_child(work: Work, place: Path, at: int, act: Callable[[], None]) -> int:
    """Exit code of a child that does the work, where ``act`` happens at every call from number ``at`` on."""
    child = os.fork()
    if child == 0:
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            if done > at:
                act()

        code = TRACE
        try:
            with _patched(count):
                work.do(place)
            code = DONE
        except ScdhError as error:
            code = TRACE if "\n" in str(error) else REFUSED
        except OSError as error:  # the command line makes one sentence of it
            code = REFUSED if error.errno == errno.ENOSPC else TRACE
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _patched:
    """Calls ``before`` before every call of ``CALLS`` in this process; opening counts where it creates a file."""

    def __init__(self, before: Callable[[], None]) -> None:
        self.before, self.kept = before, {name: getattr(os, name) for name in CALLS}

    def __enter__(self) -> None:
        for name, function in self.kept.items():
            setattr(os, name, self._wrapped(name, function))

    def __exit__(self, *_: object) -> None:
        for name, function in self.kept.items():
            setattr(os, name, function)

    def _wrapped(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            reads_only = name == "open" and not int(arguments[1]) & os.O_CREAT  # type: ignore[call-overload]
            if not reads_only:
                self.before()
            return function(*arguments, **named)

        return call


def _kill() -> None:
    os._exit(KILLED)


def _no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
