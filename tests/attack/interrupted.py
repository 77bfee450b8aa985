"""Writers that are killed, or find the disk full, at every call that changes the file system.

A child process does the work and ends at the n-th such call, as by ``kill -9``, or gets "no space left" from it and
from all later ones. Afterwards what it wrote to must hold the old contents or the new ones, whole.
"""

import errno
import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch

from scdh.errors import ScdhError
from tests.attack.trials import Attack, Failed
from tests.attack.works import Work

CALLS = ("replace", "rename", "unlink", "rmdir", "mkdir", "fsync", "write", "ftruncate", "open")
KILLED, REJECTED, DONE, TRACE = 9, 3, 0, 4


@dataclass(frozen=True)
class Contents:
    """What a work must leave: ``old`` or ``new``, and ``twice`` where it was done again; ``scratch`` is for copies."""

    work: Work
    scratch: Path
    old: str
    new: str
    twice: str
    calls: int  # that change the file system
    room: int  # bytes that a disk must have for it, at most

    def copied(self) -> Path:
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.work.folder, self.scratch, symlinks=True)
        return self.scratch

    def check(self, place: Path, code: int, make_room: Callable[[], object] = lambda: None) -> str:
        """How the work in ``place`` ended, which gave ``code``; whoever does it next, after ``make_room``, succeeds."""
        work = self.work
        if code == TRACE:
            raise Failed(f"{work.kind} ended in a trace")
        try:
            found = work.read(place)
        except ScdhError as error:
            raise Failed(f"after {work.kind} was interrupted its file cannot be read: {error}") from None
        if found not in (self.old, self.new):
            raise Failed(f"after {work.kind} was interrupted the contents are neither the old nor the new ones")
        if code == DONE and found != self.new:
            raise Failed(f"{work.kind} said that it was done, but the contents are the old ones")
        make_room()
        work.do(place)  # what was left behind must not stand in the way of the next writer
        if work.read(place) != (self.new if found == self.old else self.twice):
            raise Failed(f"{work.kind} after an interrupted one did not give the new contents")
        return "old contents" if found == self.old else "new contents"


def contents_of(work: Work) -> Contents:
    """Does the work once, and again."""
    scratch = work.folder.with_name(f"{work.folder.name}-trial")
    place = Contents(work, scratch, "", "", "", 0, 0).copied()
    old = work.read(place)
    calls = _count_calls(work, place)
    new = work.read(place)
    # A file that is replaced is there twice for a moment.
    room = 2 * max(path.stat().st_size for path in place.rglob("*") if path.is_file())
    work.do(place)
    return Contents(work, scratch, old, new, work.read(place), calls, room)


def attacks(contents: Contents) -> Iterator[Attack]:
    """Two attacks on a kind of work."""
    for name, act in (("kill", _kill), ("full disk", _no_space)):
        yield Attack(f"{name}: {contents.work.kind}", _trial_of(contents, act))


def _trial_of(contents: Contents, act: Callable[[], None]) -> Callable[[Random], str]:
    return lambda random: interrupt(contents, random.randrange(contents.calls), act)


def interrupt(contents: Contents, at: int, act: Callable[[], None]) -> str:
    """How the work ended that was interrupted at call number ``at``."""
    place = contents.copied()
    return contents.check(place, _in_child(contents.work, place, at, act))


def interrupt_everywhere(contents: Contents) -> set[str]:
    """How the work ended that was killed, or found the disk full, at each of its calls in turn."""
    return {interrupt(contents, at, act) for act in (_kill, _no_space) for at in range(contents.calls)}


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
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if done > at:
            act()

    def act_on_calls() -> int:
        with _patched(count):
            return ending_of(work, place)

    return in_child(act_on_calls)


def in_child(action: Callable[[], int | None]) -> int:
    """Exit code of a fork that runs an action: what the action returns, or TRACE."""
    child = os.fork()
    if child == 0:
        code = TRACE
        try:
            code = action() or DONE
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ending_of(work: Work, place: Path) -> int:
    """Do the work: DONE, or REJECTED in one sentence, or TRACE."""
    torch.set_num_threads(1)  # threads do not survive a fork
    try:
        work.do(place)
    except ScdhError as error:
        return TRACE if "\n" in str(error) else REJECTED
    except OSError as error:  # the command line makes one sentence of it
        return REJECTED if error.errno == errno.ENOSPC else TRACE
    except Exception:
        traceback.print_exc(limit=-6)
        return TRACE
    return DONE


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
