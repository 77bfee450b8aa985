"""Folders of the user's cache: private, and limited in size."""

import os
import shutil
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scdh.storage.private_folder import NotPrivateError, make_private

_warned: set[str] = set()


def cache_place(name: str, variable: str) -> Path | None:
    """The place of the cache ``name``: the folder given by the environment, otherwise the user's cache.

    Args:
        name: of the folder in ``scdh`` below ``$XDG_CACHE_HOME`` or ``~/.cache``.
        variable: of the environment, with another folder; if its value is empty, nothing is cached.
    """
    given = os.environ.get(variable)
    if given == "":
        return None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home
        return None
    return Path(os.path.abspath(given or Path(base, "scdh", name)))


def user_cache(name: str, variable: str, *, holds: str) -> Path | None:
    """The folder of :func:`cache_place`, which is created; None if there is none that only this user can write to."""
    folder = cache_place(name, variable)
    if folder is None:
        return None
    try:
        make_private(folder)
        return folder
    except NotPrivateError as error:
        if name not in _warned:
            _warned.add(name)
            warnings.warn(
                f"{holds} are not cached: {error}, so another user could change your codes; set {variable} to a "
                "folder of your own.",
                stacklevel=3,
            )
    except OSError:  # read-only
        pass
    return None


def mark_used(entry: Path) -> None:
    """Note that a file or folder of a cache was used now."""
    with suppress(OSError):
        os.utime(entry)


def remove_least_used(entries: Iterable[Path], newest: Path, most_bytes: int) -> None:
    """Remove the files or folders that were not used for longest, until all take at most ``most_bytes``."""
    total = size_of(newest)
    for entry in sorted(entries, key=_last_use, reverse=True):
        if entry == newest:
            continue
        total += size_of(entry)
        if total > most_bytes:
            remove(entry)


def size_of(entry: Path) -> int:
    """Bytes of a file, or of all files in a folder; 0 if it is gone."""
    files = entry.rglob("*") if entry.is_dir() else (entry,)
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def remove(entry: Path) -> None:
    """Remove a file or folder, as far as the system allows it."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink()


def _last_use(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0
