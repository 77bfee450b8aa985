"""What a user names on the command line → a source: a data set, a file, a folder, or loose image files."""

import errno
import os
from pathlib import Path

from scdh.data.arrays.loose import ItemsSource
from scdh.data.images.decode import EXTENSIONS
from scdh.data.open import open_source
from scdh.data.source import Source
from scdh.errors import DataError


def open_inputs(
    words: list[str],
    *,
    root: Path | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    labels: Path | None = None,
) -> Source:
    """One source, or one or several image files."""
    options = {"root": root, "image_column": image_column, "label_column": label_column, "labels": labels}
    if not all(_is_image(word) for word in words):
        if len(words) > 1:
            odd = next(word for word in words if not _is_image(word))
            raise DataError(f"Several inputs must all be image files, and {odd!r} is none.")
        return open_source(words[0], root=root, image_column=image_column, label_column=label_column, labels=labels)
    for option, value in options.items():
        if value is not None:
            raise DataError(f"Image files cannot use --{option.replace('_', '-')} ({value}).")
    missing = [word for word in words if not Path(word).is_file()]
    if missing:
        raise DataError(f"There is no image file {missing[0]}.")
    return ItemsSource([Path(word) for word in words])


def check_writable(path: Path) -> None:
    """Refuse an output file that cannot be written before the work, not after it."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; --out needs the name of a file.")
    check_place(path.parent)


def check_place(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to."""
    there = next((place for place in (folder, *folder.parents) if place.exists()), Path())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))


def _is_image(word: str) -> bool:
    return Path(word).suffix.lower() in EXTENSIONS
