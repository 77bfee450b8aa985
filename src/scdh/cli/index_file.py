"""Make index files from files of codes, and add or remove items, with names and labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scdh.codes import Codes
from scdh.codes.checks import check_same_model
from scdh.codes.vectors import VectorKind
from scdh.data.arrays.array_files import read_npy
from scdh.data.name_files import (
    for_new_index,
    load_named_codes,
    names_of_index,
    remove_other_names,
    save_named_index,
    save_names_to_append,
)
from scdh.data.row_names import RowNames, joined
from scdh.errors import CodesError, ConfigError, ExistingIdError
from scdh.index import HammingIndex
from scdh.index.store import IndexWriter
from scdh.label_arrays import no_labels

OnDuplicate = Literal["skip", "replace", "error"]
CodesFile = tuple[Path, Codes, RowNames | None]
_NO_IDS = np.empty(0, np.int64)


def load_codes(paths: list[Path], bits: int | None = None) -> list[CodesFile]:
    """Codes of all files, which must have the same bits and model, and their names, if they have any.

    Args:
        paths: of files of codes.
        bits: how many first bits of the codes to take; None: all.
    """
    loaded: list[CodesFile] = [(path, *_load(path, bits)) for path in paths]
    first_path, first, _ = loaded[0]
    for path, codes, _ in loaded[1:]:
        if codes.bits != first.bits:
            raise CodesError(f"{path} holds codes of {codes.bits} bits, but those before have {first.bits} bits.")
        check_same_model(first.metadata, codes.metadata, str(first_path), str(path))
    return loaded


def _load(path: Path, bits: int | None) -> tuple[Codes, RowNames | None]:
    codes, names = _read(path)
    return codes if bits is None else codes.truncate(bits), names


def _read(path: Path) -> tuple[Codes, RowNames | None]:
    """A file of codes; packed rows in .npy; or hexadecimal hashes in .txt, one per line, with a name after a space."""
    if path.suffix == ".npy":
        rows = Codes.from_packed(read_npy(path))
        return Codes(np.array(rows.packed), rows.bits), None  # a copy: the file may change
    if path.suffix == ".txt" and path.is_file():
        lines = [line.split(maxsplit=1) for line in read_lines(path)]
        codes = Codes.from_packed([line[0] for line in lines])
        if not any(len(line) > 1 for line in lines):
            return codes, None
        names = [line[1] if len(line) > 1 else "" for line in lines]
        return codes, RowNames(np.arange(len(lines)), names, no_labels(len(lines)), [])
    return load_named_codes(path)


@dataclass(frozen=True)
class Written:
    """An index after items were added.

    Attributes:
        index: in memory, with all items.
        present: items to add that the index held already, by their id or, with new ids, by their name.
        action: "skip", "replace", or "add" if they were added again under new ids.
    """

    index: HammingIndex
    present: int
    action: str


def write_index(
    paths: list[Path],
    out: Path,
    *,
    append: bool,
    renumber: bool,
    on_duplicate: OnDuplicate | None = None,
    keep_vectors: VectorKind | None = None,
    bits: int | None = None,
) -> Written:
    """Write the codes of some files into one index file.

    Args:
        paths: files of codes.
        out: index file.
        append: add to the index that ``out`` holds; otherwise it is replaced.
        renumber: assign new ids to codes that are not the first, instead of raising an error if an id exists.
        on_duplicate: what is done with an item that the index holds already, which is one with the same id, or with
            ``renumber`` one with the same name. None: "error" for ids; names may repeat and are counted.
        keep_vectors: what the vectors of the codes are rounded to. None: as in the index that is added to, or none.
        bits: how many first bits of the codes to write; None: all.

    Raises:
        CodesError: if lengths, models or ids do not fit together.
    """
    loaded = load_codes(paths, bits)
    if append:
        keep_vectors = _kind_to_append(out, keep_vectors)
    loaded = [(path, _with_vectors(path, codes, keep_vectors), names) for path, codes, names in loaded]
    if not append:
        build = _Build(None, out, renumber, on_duplicate, named=any(names is not None for _, _, names in loaded))
        for one in loaded:
            build.add(*one)
        save_named_index(out, build.index, build.names())
        return build.written()
    _check_append(out, *loaded[0][:2])
    with IndexWriter(out) as writer:
        build = _Build(HammingIndex.load(out), out, renumber, on_duplicate)
        for one in loaded:
            build.add(*one)
        # Names first: a search ignores names that the index does not have, but needs those that it has.
        if (names := build.names()) is not None:
            save_names_to_append(out, writer.metadata, names)
        writer.replace_all(build.removed, build.added)
        remove_other_names(out)
    return build.written()


def remove_items(out: Path, items: Sequence[str]) -> tuple[int, int]:
    """Remove items, each given by its id or its name, in one commit.

    Returns:
        The number of items removed, and the number left.

    Raises:
        ConfigError: if an item is unknown, or several have the same name; then nothing is removed.
    """
    from scdh.cli.search_queries import id_of_row

    with IndexWriter(out) as writer:
        index = HammingIndex.load(out)
        names = names_of_index(out, index)
        names = None if names is None else names.take(np.flatnonzero(index.contains(names.ids)))
        ids = np.unique(np.array([id_of_row(item, names, str(out), option="--remove") for item in items], np.int64))
        writer.remove(ids)
        return len(ids), len(writer)


def _kind_to_append(out: Path, wanted: VectorKind | None) -> VectorKind | None:
    index = HammingIndex.load(out)
    kept: Any = None if index.vector_kind is None else index.vector_kind[0]
    if wanted not in (None, kept) and len(index):
        raise ConfigError(f"{out} keeps {kept or 'no'} vectors, so --keep-vectors {wanted} needs a new index.")
    return kept or wanted


def _with_vectors(path: Path, codes: Codes, kind: VectorKind | None) -> Codes:
    if kind is not None and codes.vectors is None:
        raise CodesError(f"{path} has no vectors to keep; `scdh encode … --vectors` writes codes that have them.")
    return codes.with_vectors(codes.vectors, kind) if kind is not None else codes.with_vectors(None)


def _check_append(out: Path, path: Path, codes: Codes) -> None:
    present = HammingIndex.load(out)
    if present.bits != codes.bits:
        raise CodesError(f"{path} holds codes of {codes.bits} bits, but those of {out} have {present.bits} bits.")
    check_same_model(present.metadata, codes.metadata, str(out), str(path))


@dataclass
class _Build:
    """An index in memory to which files are added one by one."""

    started: HammingIndex | None
    out: Path
    renumber: bool
    on_duplicate: OnDuplicate | None
    named: bool = True
    parts: list[tuple[Path, np.ndarray, RowNames | None]] = field(default_factory=list)
    added: list[tuple[Codes, np.ndarray]] = field(default_factory=list)
    removed: np.ndarray = field(default_factory=_NO_IDS.copy)
    present: int = 0
    original: np.ndarray = field(default_factory=_NO_IDS.copy)

    def __post_init__(self) -> None:
        if self.started is not None:
            self.original = ids = self.started.ids
            names = RowNames.load(self.out, ids, len(ids), may_have_more=True)
            self.parts.append((self.out, ids, names))

    @property
    def index(self) -> HammingIndex:
        assert self.started is not None  # there is at least one file
        return self.started

    def add(self, path: Path, codes: Codes, names: RowNames | None) -> None:
        if self.started is None:
            self.started = HammingIndex(for_new_index(codes, named=self.named))
            self._record(path, codes, self.started.ids if codes.ids is None else codes.ids, names)
            return
        same = self._same_items(codes, names)
        is_present = same >= 0
        self.present += int(is_present.sum())
        if is_present.any() and self.on_duplicate == "error" and names is not None and self.renumber:
            name = names.names[int(np.argmax(is_present))]
            raise CodesError(
                f"{self.out} already holds an item called {name!r} ({is_present.sum()} of the {len(codes)} names of "
                f"{path}); --on-duplicate skip or replace decides what to do."
            )
        if is_present.any() and self.on_duplicate in ("skip", "replace"):
            if self.on_duplicate == "replace":
                kept_ids, chosen = np.unique(same[is_present], return_index=True)
                rows = np.flatnonzero(is_present)[chosen]
                self._remove(kept_ids)
                self.index.add(_rows(codes, rows, kept_ids), kept_ids)
                self._record(path, _rows(codes, rows, kept_ids), kept_ids, _renamed(names, rows, kept_ids))
            new = np.flatnonzero(~is_present)
            codes, names = _rows(codes, new, None), None if names is None else names.take(new)
        self._record(path, codes, add_codes(self.index, codes, path, self.renumber), names)

    def _same_items(self, codes: Codes, names: RowNames | None) -> np.ndarray:
        """For each code the id of the same item in the index; −1 if there is none."""
        if not self.renumber and codes.ids is not None:
            return np.where(self.index.contains(codes.ids), codes.ids, -1)
        if names is None:
            return np.full(len(codes), -1)
        known: dict[str, int] = {}
        for _, ids, own in self.parts:
            if own is not None:
                known.update(zip(own.names, ids.tolist(), strict=True))
        known.pop("", None)
        return np.array([known.get(name, -1) for name in names.names], np.int64)

    def _remove(self, ids: np.ndarray) -> None:
        """Take out items that are replaced."""
        self.index.remove(ids)
        self.removed = np.union1d(self.removed, np.intersect1d(ids, self.original))
        for n, (path, own, names) in enumerate(self.parts):
            rows = np.flatnonzero(~np.isin(own, ids))
            self.parts[n] = (path, own[rows], None if names is None else names.take(rows))
        for n, (codes, own) in enumerate(self.added):
            rows = np.flatnonzero(~np.isin(own, ids))
            self.added[n] = (_rows(codes, rows, own[rows]), own[rows])

    def _record(self, path: Path, codes: Codes, ids: np.ndarray, names: RowNames | None) -> None:
        self.added.append((codes, ids))
        self.parts.append((path, ids, names))

    def names(self) -> RowNames | None:
        if all(own is None for _, _, own in self.parts):
            return None
        named = [_numbered_rows(path, len(ids)) if own is None else own for path, ids, own in self.parts]
        return joined(named, np.concatenate([ids for _, ids, _ in self.parts]))

    def written(self) -> Written:
        return Written(self.index, self.present, "add" if self.on_duplicate is None else self.on_duplicate)


def add_codes(index: HammingIndex, codes: Codes, path: Path, renumber: bool) -> np.ndarray:
    """Add the codes of a file to an index in memory; returns their ids."""
    ids = None
    if renumber:
        first = int(index.ids.max()) + 1 if len(index) else 0
        ids = np.arange(first, first + len(codes))
    try:
        return index.add(codes, ids)
    except ExistingIdError as error:
        message = (
            f"{str(error).rstrip('.')}, from {path}; --renumber assigns new ids, --on-duplicate skips or replaces."
        )
        raise ExistingIdError(message, error.ids) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty, such as ids, names or hashes.

    Raises:
        ConfigError: if the file cannot be read.
    """
    try:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} must be a text file with one item per line: {error}.") from None


def _rows(codes: Codes, rows: np.ndarray, ids: np.ndarray | None) -> Codes:
    own = codes.ids if ids is None else ids
    own = own[rows] if ids is None and own is not None else own
    vectors = None if codes.vectors is None else codes.vectors[rows]
    return Codes(codes.packed[rows], codes.bits, own, codes.metadata, vectors=vectors)


def _renamed(names: RowNames | None, rows: np.ndarray, ids: np.ndarray) -> RowNames | None:
    if names is None:
        return None
    own = names.take(rows)
    return RowNames(ids, own.names, own.labels, own.label_names)


def _numbered_rows(path: Path, count: int) -> RowNames:
    """Names for the rows of a file without names: the file and the row number."""
    names = [f"{path.name} row {row}" for row in range(count)]
    return RowNames(np.arange(count), names, no_labels(count), [])
