"""Store names and labels of rows, so that codes never get those of other codes.

A codes file holds its own: one rename replaces codes, names and labels together. An index grows in place, so its names
are in a file next to it. The metadata of an index written by ``scdh index`` hold a random number, which is part of the
name of that file (``photos.index.items-90b1c35e7f2a4d68``). Names are written first, then the index that refers to
them, so an index always finds its own names. Other indexes use ``photos.index.items``.
"""

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scdh.codes import FORMAT as CODES_FORMAT
from scdh.codes import Codes, read_codes, write_codes
from scdh.data.name_tensors import has_names, name_tensors, read_name_tensors
from scdh.data.row_names import RowNames
from scdh.errors import CodesError
from scdh.storage.files import open_regular, remove_abandoned
from scdh.storage.tensor_files import open_tensors, write_tensors

if TYPE_CHECKING:
    from scdh.index import HammingIndex
    from scdh.index.search_index import SearchIndex

FORMAT = "scdh-items"
_KEY = "names"  # the entry of an index's metadata that says which names are its own
_NAMED = "named"  # the entry that says that the index was written with names
_NUMBER = "[0-9a-f]{16}"


def save_named_codes(path: str | os.PathLike[str], codes: Codes, row_names: RowNames) -> None:
    """Write codes with the names and labels of their rows into one file, whole or not at all."""
    ids = np.arange(len(codes)) if codes.ids is None else codes.ids
    if not np.array_equal(ids, row_names.ids):
        raise CodesError(f"The {len(row_names.ids)} names for {path} have other ids than its {len(codes)} codes.")
    write_codes(path, codes, name_tensors(row_names), {})


def load_named_codes(path: str | os.PathLike[str]) -> tuple[Codes, RowNames | None]:
    """Codes and, if the file has them, names and labels; they belong together even if the file is being replaced."""
    with open_tensors(path, CODES_FORMAT) as stored:
        codes = read_codes(stored)
        ids = np.arange(len(codes)) if codes.ids is None else codes.ids
        return codes, read_name_tensors(stored, ids) if has_names(stored) else None


def save_names(row_names: RowNames, path: str | os.PathLike[str]) -> None:
    """Keep names with the codes or index file ``path``, which must be there."""
    path = Path(path)
    if not path.exists():
        raise CodesError(f"There is no codes or index file at {path} to keep names with; write it first.")
    if not is_index_file(path):
        return save_named_codes(path, Codes.load(path), row_names)
    write_names_file(index_names_file(path, _index_metadata(path)), row_names)


def load_names(path: str | os.PathLike[str]) -> RowNames | None:
    """The names and labels of a codes or index file; None if there are none."""
    path = Path(path)
    if not path.exists():
        return None
    if is_index_file(path):
        return read_names_file(index_names_file(path, _index_metadata(path)))
    return load_named_codes(path)[1]


def read_names_file(file: str | os.PathLike[str]) -> RowNames | None:
    """The names and labels in one names file; None if there is no such file."""
    file = Path(file)
    if not file.exists():
        return None
    with open_tensors(file, FORMAT) as stored:
        return read_name_tensors(stored, stored.read("ids"))


def matching(
    row_names: RowNames, ids: np.ndarray, path: str | os.PathLike[str], *, may_have_more: bool = False
) -> RowNames:
    """The names and labels of the rows with these ``ids``, int64 [n], of the file ``path``; an error if some are
    missing.
    """
    if may_have_more and len(row_names.ids) > len(ids):
        row_names = row_names.take(np.flatnonzero(np.isin(row_names.ids, ids)))
    if not np.array_equal(row_names.ids, ids):
        raise CodesError(f"The names of {path} do not belong to it: their {len(row_names.ids)} rows have other ids.")
    return row_names


def is_missing_names(path: Path, metadata: Mapping[str, str]) -> bool:
    """Whether an index with these metadata was written with names, but their file is not next to it."""
    return metadata.get(_NAMED) == "yes" and not index_names_file(path, metadata).exists()


def names_of_index(path: Path, index: "SearchIndex") -> RowNames | None:
    """Names for the items of an open index, and possibly of others; None if there are none.

    All ids of the index are compared only with names that may be those of another index: the ids of 100 million items
    take 800 MB.
    """
    row_names = read_names_file(index_names_file(path, index.metadata))
    if row_names is None or _number(index.metadata) is not None:
        return row_names
    return matching(row_names, index.ids, path, may_have_more=True)


def index_names_file(path: Path, metadata: Mapping[str, str]) -> Path:
    """The file with the names of an index that has these metadata."""
    number = _number(metadata)
    return path.with_name(f"{path.name}.items" if number is None else f"{path.name}.items-{number}")


def owner_of_names(file: Path) -> Path | None:
    """The codes or index file whose names a file holds, judged by its name; None if it is not such a file."""
    found = re.fullmatch(rf"(.+)\.items(-{_NUMBER})?", file.name)
    return None if found is None else file.with_name(found[1])


def for_new_index(codes: Codes, *, named: bool = True) -> Codes:
    """The codes for a new index, with metadata that name its names file, or say that it has none."""
    own = {_KEY: secrets.token_hex(8), **({_NAMED: "yes"} if named else {})}
    return codes.with_metadata({**codes.metadata, **own})


def save_named_index(path: Path, index: "HammingIndex", row_names: RowNames | None) -> None:
    """Write an index made of :func:`for_new_index` and its names; a kill leaves the old ones or the new ones."""
    file = index_names_file(path, index.metadata)
    try:
        if row_names is not None:
            write_names_file(file, row_names)
        index.save(path)
    except BaseException:
        # The new index may be there already, if only the folder could not be synced.
        if path.exists():
            remove_other_names(path)
        else:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        raise
    if row_names is not None and not file.exists():  # another process that wrote this index removed it
        write_names_file(file, row_names)
    remove_other_names(path)


def save_names_to_append(path: Path, metadata: Mapping[str, str], row_names: RowNames) -> None:
    """Write the names of an index and of the rows that are added next: it must never have rows without a name."""
    write_names_file(index_names_file(path, metadata), row_names)


def remove_other_names(path: Path) -> None:
    """Remove files of names that the index does not ask for: of earlier indexes there, and of killed writers."""
    with suppress(OSError, CodesError):
        own = index_names_file(path, _index_metadata(path))
        name = re.escape(path.name)
        names = re.compile(rf"{name}\.items(-{_NUMBER})?")
        begun = re.compile(rf"\.({name}\.items(-{_NUMBER})?)\.[0-9]+-[0-9a-f]{{8}}\.tmp")
        for file in path.parent.iterdir():
            if names.fullmatch(file.name) and file.name != own.name:
                file.unlink(missing_ok=True)
            elif found := begun.fullmatch(file.name):
                remove_abandoned(file.with_name(found[1]))


def write_names_file(file: Path, row_names: RowNames) -> None:
    """Write a file that holds names only; :func:`read_names_file` reads it."""
    write_tensors(file, {**name_tensors(row_names), "ids": row_names.ids.astype(np.int64, copy=False)}, FORMAT, {})


def _number(metadata: Mapping[str, str]) -> str | None:
    number = metadata.get(_KEY, "")
    return number if re.fullmatch(_NUMBER, number) else None


def is_index_file(path: Path) -> bool:
    try:
        with open(path, "rb", opener=open_regular) as handle:
            # Also at the second of its headers: a power cut may tear the first.
            start = handle.read(10)
            handle.seek(4096)
            return b"scdh-index" in (start, handle.read(10))
    except OSError as error:
        raise CodesError(f"{path} cannot be read: {error.strerror}.") from error


def _index_metadata(path: Path) -> dict[str, str]:
    from scdh.index.store import read_index

    return read_index(path, verify=False).metadata
