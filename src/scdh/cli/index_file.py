"""Files of codes put together into one index file, with the names and labels of their rows beside it."""

from pathlib import Path

import numpy as np

from scdh.code_checks import check_same_model
from scdh.codes import Codes
from scdh.data.name_files import (
    for_new_index,
    load_named_codes,
    remove_other_names,
    save_named_index,
    save_names_to_append,
)
from scdh.data.row_names import RowNames, joined
from scdh.errors import CodesError
from scdh.index import HammingIndex
from scdh.index.store import IndexWriter
from scdh.label_arrays import no_labels

CodesFile = tuple[Path, Codes, RowNames | None]


def load_codes(paths: list[Path]) -> list[CodesFile]:
    """Codes of all files, which must have the same bits and model, and names where they have some."""
    loaded: list[CodesFile] = [(path, *load_named_codes(path)) for path in paths]
    first_path, first, _ = loaded[0]
    for path, codes, _ in loaded[1:]:
        if codes.bits != first.bits:
            raise CodesError(f"{path} holds codes of {codes.bits} bits, but those before have {first.bits} bits.")
        check_same_model(first.metadata, codes.metadata, str(first_path), str(path))
    return loaded


def write_index(paths: list[Path], out: Path, *, append: bool, renumber: bool) -> HammingIndex:
    """Write the codes of some files into one index file.

    Args:
        paths: files of codes.
        out: index file.
        append: add to the index that ``out`` holds; otherwise it is replaced.
        renumber: give new ids to codes that are not the first, instead of refusing an id that comes twice.

    Returns:
        The index as written.

    Raises:
        CodesError: if lengths, models or ids do not go together.
    """
    loaded = load_codes(paths)
    if append:
        _check_append(out, *loaded[0][:2])
        with IndexWriter(out) as writer:
            index, added, names = _put_together(HammingIndex.load(out), loaded, out, renumber)
            # Names first: a search ignores names that the index does not have, but needs those that it has.
            if names is not None:
                save_names_to_append(out, writer.metadata, names)
            writer.add_all(added)
            remove_other_names(out)
        return index
    index, _, names = _put_together(None, loaded, out, renumber)
    save_named_index(out, index, names)
    return index


def _check_append(out: Path, path: Path, codes: Codes) -> None:
    present = HammingIndex.load(out)
    if present.bits != codes.bits:
        raise CodesError(f"{path} holds codes of {codes.bits} bits, but those of {out} have {present.bits} bits.")
    check_same_model(present.metadata, codes.metadata, str(out), str(path))


def _put_together(
    index: HammingIndex | None, loaded: list[CodesFile], out: Path, renumber: bool
) -> tuple[HammingIndex, list[tuple[Codes, np.ndarray]], RowNames | None]:
    """The index in memory with all codes, the codes that were added with their ids, and the names of all rows."""
    parts: list[tuple[Path, np.ndarray, RowNames | None]] = []
    if index is not None:
        parts.append((out, index.ids, RowNames.load(out, index.ids, len(index), may_have_more=True)))
    added = []
    for path, codes, names in loaded:
        if index is None:
            index = HammingIndex(for_new_index(codes))
            ids = index.ids if codes.ids is None else codes.ids
        else:
            ids = add_codes(index, codes, path, renumber)
        added.append((codes, ids))
        parts.append((path, ids, names))
    assert index is not None  # there is at least one file
    if all(own is None for _, _, own in parts):
        return index, added, None
    named = [_numbered_rows(path, len(ids)) if own is None else own for path, ids, own in parts]
    return index, added, joined(named, np.concatenate([ids for _, ids, _ in parts]))


def add_codes(index: HammingIndex, codes: Codes, path: Path, renumber: bool) -> np.ndarray:
    """Add the codes of a file to an index in memory; returns their ids."""
    ids = None
    if renumber:
        first = int(index.ids.max()) + 1 if len(index) else 0
        ids = np.arange(first, first + len(codes))
    try:
        return index.add(codes, ids)
    except CodesError as error:
        if "already holds" not in str(error):
            raise
        raise CodesError(f"{str(error).rstrip('.')}, from {path}; --renumber gives new ids.") from None


def _numbered_rows(path: Path, count: int) -> RowNames:
    """Names for the rows of a file that has none: the file and the number of the row."""
    names = [f"{path.name} row {row}" for row in range(count)]
    return RowNames(np.arange(count), names, no_labels(count), [])
