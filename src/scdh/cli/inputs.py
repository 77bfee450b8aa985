"""Open the data that a user names: a data set, a file, a folder, or single image files."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scdh.data.arrays.loose import ItemsSource
from scdh.data.images.formats import is_image_name, missing_reader
from scdh.data.open import open_source
from scdh.data.source import Source
from scdh.errors import CodesError, ConfigError, DataError
from scdh.storage.files import check_replaceable

if TYPE_CHECKING:
    from scdh.data.row_names import RowNames
    from scdh.index import HammingIndex


def open_inputs(names: list[str], **options: Any) -> Source:
    """The source of one name, or of one or several image files.

    Args:
        names: either one name as for ``open_source``, or paths of image files.
        options: as for ``open_source``, None for those not given; image files take none of them.

    Raises:
        DataError: if an image file is missing, or several names are not all image files.
    """
    options = {option: value for option, value in options.items() if value is not None}
    other = [name for name in names if not is_image_name(Path(name).name)]
    if other:
        if len(names) > 1:
            remedy = missing_reader(other[0])
            raise DataError(
                f"Several inputs must all be image files, but {other[0]!r} is not"
                + (f" one that can be read: {remedy}." if remedy else ".")
            )
        return open_source(names[0], **options)
    for option, value in options.items():
        raise DataError(f"Image files cannot use --{option.replace('_', '-')} ({value}).")
    missing = [name for name in names if not Path(name).is_file()]
    if missing:
        raise DataError(f"There is no image file {missing[0]}.")
    return ItemsSource([Path(name) for name in names])


def check_file_writable(path: Path, option: str = "--out") -> None:
    """Check before the work that the output file, the value of ``option``, can be written."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; {option} needs the name of a file.")
    check_replaceable(path)
    _check_is_text(path)
    check_folder_writable(path.parent)


def check_not_there(path: Path, replace: bool, otherwise: str = "") -> None:
    """Replace codes or an index, which may be hours of work, only if that is asked for.

    Args:
        path: file to be written.
        replace: whether ``--replace`` was given.
        otherwise: what can be done with an index instead, as the end of the sentence.
    """
    if replace or not path.exists():
        return
    kind, contents = _contents(path)
    hint = otherwise if kind == "index" else ""
    raise ConfigError(f"{path} exists already and holds {contents}; --replace replaces it{hint}.")


def _contents(path: Path) -> tuple[str, str]:
    """ "index", "codes" or "other", and what the file holds, in words."""
    from scdh.codes import Codes
    from scdh.index import HammingIndex

    readers: tuple[tuple[str, Callable[[], Codes | HammingIndex]], ...] = (
        ("index", lambda: HammingIndex.load(path, verify=False)),
        ("codes", lambda: Codes.load(path)),
    )
    for kind, read in readers:
        with suppress(CodesError):
            found = read()
            of = "an index of " if kind == "index" else ""
            return kind, f"{of}{len(found):,} codes of {found.bits} bits"
    return "other", "neither codes nor an index"


def check_folder_writable(folder: Path) -> None:
    """Reject a folder that cannot be made or written to."""
    _check_is_text(folder)
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path())
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(existing))
    if not os.access(existing, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


def _check_is_text(path: Path) -> None:
    """Names of data may be any bytes; those of outputs may not, as the packages that write them need text."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"Output cannot be written to {path}, which is not UTF-8; choose another name.") from None


def open_codes(source: Path) -> "tuple[HammingIndex, RowNames | None]":
    """The items of an index file or a file of codes, with their names and labels if there are any."""
    from scdh.data.name_files import is_index_file, load_named_codes, names_of_index
    from scdh.index import HammingIndex

    if not source.is_file():
        raise ConfigError(f"There is no index or codes file at {source}.")
    if is_index_file(source):
        index = HammingIndex.load(source)
        return index, names_of_index(source, index)
    codes, names = load_named_codes(source)
    return HammingIndex(codes), names
