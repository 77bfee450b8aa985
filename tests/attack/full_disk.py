"""A disk that is really full: the same work on a small tmpfs with too little room, in a mount namespace of its own.

Where mounting is not allowed there is only the simulated full disk of :mod:`tests.attack.interrupted`, which says
nothing about code that is not Python, such as the writer of safetensors.
"""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from tests.attack.interrupted import Contents, ending_of
from tests.attack.trials import Attack, Failed

NEW_MOUNTS, PRIVATE, RECURSIVE = 0x20000, 1 << 18, 1 << 14  # of linux/sched.h and linux/mount.h
CAPACITY = 64 << 20


def attacks(contents: Contents) -> Iterator[Attack]:
    """One attack on a kind of work, where mounting is allowed."""
    if mounting_is_allowed():
        yield Attack(f"full tmpfs: {contents.work.kind}", lambda random: _trial(contents, random))


@cache
def mounting_is_allowed() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return _in_child(lambda: mount_tmpfs(Path(folder)) or "mounted") == "mounted"


def mount_tmpfs(folder: Path) -> None:
    """Mount a tmpfs that only this process sees, and that goes when it ends."""
    system = ctypes.CDLL(None, use_errno=True)
    size = f"size={CAPACITY}".encode()
    for result in (
        system.unshare(NEW_MOUNTS),
        system.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None),
        system.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, size),
    ):
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _trial(contents: Contents, random: Random) -> str:
    place = contents.scratch
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    room = int(contents.room ** random.random())  # as often a little as much

    def work_on_full_disk() -> str:
        mount_tmpfs(place)
        shutil.copytree(contents.work.folder, place, symlinks=True, dirs_exist_ok=True)
        filler = place / "filler"
        state = os.statvfs(place)
        with open(filler, "wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, max(1, state.f_bavail * state.f_frsize - room))
        return contents.check(place, ending_of(contents.work, place), filler.unlink)

    ending = _in_child(work_on_full_disk)
    if ending not in ("old contents", "new contents"):
        raise Failed(ending)
    return ending


def _in_child(action: Callable[[], str]) -> str:
    """What an action returns in a process of its own, or why it failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                text = action()
            except Failed as failure:
                text = str(failure)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writing, text.encode()[:4096])
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text if code == 0 else f"the process ended with {code}"
