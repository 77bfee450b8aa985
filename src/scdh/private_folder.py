"""A folder that only this user can write to, whatever the folder above it allows."""

import os
import stat
from pathlib import Path

try:
    import grp
    import pwd
except ImportError:  # Windows, where folders of a user are private by other means
    grp = pwd = None  # type: ignore[assignment]


class NotPrivateError(Exception):
    """Somebody else could put files into a folder; the text says why, as a part of a sentence."""


def make_private(folder: Path) -> None:
    """Create an absolute folder, open to its owner alone, unless it exists.

    Raises:
        NotPrivateError: if others can write to it, or can put another one in its place.
        OSError: if it cannot be created.
    """
    if pwd is not None:
        _refuse_replaceable(folder.parent)
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    if pwd is None:
        return
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotPrivateError(f"{folder} is a link or a file, not a folder")
    if found.st_uid != os.geteuid():
        raise NotPrivateError(f"{folder} belongs to another user")
    if _is_open(found):
        raise NotPrivateError(f"other users can write to {folder}")


def _refuse_replaceable(folder: Path) -> None:
    """Refuse a folder if others could rename what is in it, or in one of those above it."""
    real = Path(os.path.realpath(folder))
    for one in (real, *real.parents):
        if not one.exists():
            continue
        found = os.stat(one)
        # In a folder with the sticky bit, like /tmp, only its owner can rename or remove what belongs to others.
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and found.st_uid in (0, os.geteuid())
        if _is_open(found) and not is_sticky:
            raise NotPrivateError(f"other users can write to {one}")


def _is_open(found: os.stat_result) -> bool:
    """Whether others than the owner can write; a group of the owner alone, as many systems have it, is no other."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_trusted(found.st_gid)


def _is_trusted(group: int) -> bool:
    """Whether a group is that of the system, or has this user as its only member."""
    try:
        user, entry = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return group == 0
    return group == 0 or (entry.gr_name == user and set(entry.gr_mem) <= {user})
