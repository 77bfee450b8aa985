"""The features that all runs of this user share, so that runs with other bits or methods reuse them."""

import re
from pathlib import Path

from scdh.storage.cache_folder import cache_place, mark_used, remove_least_used, user_cache

NAME, FOLDER_VARIABLE = "features", "SCDH_FEATURE_DIR"
MOST_BYTES = 10_000_000_000
_ENTRY = re.compile("[0-9a-f]{24}")


def shared_folder() -> Path | None:
    """The folder; None if the environment switches it off, or other users could write to it."""
    return user_cache(NAME, FOLDER_VARIABLE, holds="Features")


def is_shared(folder: Path) -> bool:
    return folder == cache_place(NAME, FOLDER_VARIABLE)


def entries_of(folder: Path) -> list[Path]:
    """The folders of features in a folder. A user may have named one with other contents, which are never removed."""
    found = (entry for entry in folder.iterdir() if _ENTRY.fullmatch(entry.name))
    folders = (entry for entry in found if entry.is_dir() and not entry.is_symlink())
    return sorted(
        entry for entry in folders if all(file.suffix in (".safetensors", ".tmp") for file in entry.iterdir())
    )


def note_use(entry: Path, *, has_grown: bool) -> None:
    """Mark the feature folder ``entry`` as used; if it has grown, remove the least recently used beyond the limit."""
    if is_shared(entry.parent) and entry.is_dir():
        mark_used(entry)
        if has_grown:
            remove_least_used(entries_of(entry.parent), entry, MOST_BYTES)
