"""A folder that only this user can write to, regardless of the folders above it.

A folder is private if each part of its path, links included, belongs to root or to this user, and only they can write
to it. A folder with the sticky bit, such as /tmp, may be writable by all: there, only the owner of an entry can rename
or remove it. The path is walked from the root by descriptors, so the folder that is checked is the one that is entered.
No other user can change any part of the path afterwards, so later calls find the same folder.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from scdh.storage.files import open_regular

try:
    import grp
    import pwd
except ImportError:  # Windows, where folders of a user are private by other means
    grp = pwd = None  # type: ignore[assignment]

_MOST_LINKS = 40


class NotPrivateError(Exception):
    """Another user could put files into a folder; the text gives the reason, as a part of a sentence."""


def make_private(folder: Path) -> None:
    """Create an absolute folder, open to its owner alone, unless it exists.

    Raises:
        NotPrivateError: if other users can write to it, or can replace it or a folder above it.
        OSError: if it cannot be created.
    """
    if pwd is None:
        folder.mkdir(parents=True, exist_ok=True)
        return
    os.close(_open_private(folder))


def open_own(path: str, flags: int) -> int:
    """An ``opener`` for ``open`` that accepts only regular files of this user, and no links."""
    descriptor = open_regular(path, flags | getattr(os, "O_NOFOLLOW", 0))
    if pwd is not None and os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it belongs to another user", path)
    return descriptor


def _open_private(folder: Path) -> int:
    """A descriptor of the folder; see :func:`make_private`."""
    remaining = list(folder.parts[1:])
    links = 0
    here = Path("/")
    descriptor = _enter("/", here, None)
    try:
        while remaining:
            name = remaining.pop(0)
            path = here / name
            try:
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                with suppress(FileExistsError):  # another process was faster
                    os.mkdir(name, mode=0o700, dir_fd=descriptor)
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            is_last = not remaining
            if stat.S_ISLNK(found.st_mode) and not is_last:
                _check_owner(found, path)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
                target = Path(os.readlink(name, dir_fd=descriptor))
                if target.is_absolute():
                    here = Path("/")
                    name = "/"
                    remaining = [*target.parts[1:], *remaining]
                else:
                    name = "."
                    remaining = [*target.parts, *remaining]
                path = here
            elif is_last and not stat.S_ISDIR(found.st_mode):
                raise NotPrivateError(f"{path} is a link or a file, not a folder")
            entered = _enter(name, path, descriptor, is_last=is_last)
            os.close(descriptor)
            descriptor = entered
            here = path
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _enter(name: str, path: Path, parent: int | None, *, is_last: bool = False) -> int:
    """A descriptor of the folder ``name`` in ``parent``, if other users cannot replace what is in it."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)  # O_PATH needs no right to list it
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        found = os.fstat(descriptor)
        _check_owner(found, path)
        is_sticky = bool(found.st_mode & stat.S_ISVTX)
        if _is_open(found) and (is_last or not is_sticky):
            raise NotPrivateError(f"other users can write to {path}")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_owner(found: os.stat_result, path: Path) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise NotPrivateError(f"{path} belongs to another user")


def _is_open(found: os.stat_result) -> bool:
    """Whether users other than the owner can write. A group that has only the owner as its member does not count."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_trusted(found.st_gid)


def _is_trusted(group: int) -> bool:
    """Whether a group is root's, or has this user as its only member."""
    try:
        user, entry = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return group == 0
    return group == 0 or (entry.gr_name == user and set(entry.gr_mem) <= {user})
