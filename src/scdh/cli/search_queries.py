"""Queries of a search: an item of the index, a file of codes, or images and data that a model encodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scdh.cli.output import print_note
from scdh.codes import HAMMING, Codes
from scdh.codes.checks import check_same_model, searched_bits
from scdh.data.name_files import load_named_codes
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError, unknown_name
from scdh.model import Engine

if TYPE_CHECKING:
    from scdh.data.source import Source
    from scdh.index.search_index import SearchIndex

MOST_NAMES = 20_000


@dataclass(frozen=True, eq=False)
class SearchQueries:
    """Codes to search with.

    Args:
        codes: q codes.
        names: q names.
        row_names: names and labels of the queries, where they are known.
        source: the data that were encoded; None: codes came from a file or the index.
        outputs: u [q, r], the real outputs of the queries, where hits are ranked by them.
        tie_weights: |u| [q, r] of the queries, which order items at the same distance, where they are known.
        items: names of the items of the index, which show which of them is the query itself.
        byte_tables: as ``HammingIndex.search`` takes them, where the method ranks by a distance of its own.
    """

    codes: Codes
    names: Sequence[str]
    row_names: RowNames | None = None
    source: "Source | None" = None
    outputs: np.ndarray | None = None
    byte_tables: Callable[[slice], np.ndarray] | None = None
    tie_weights: np.ndarray | None = None
    items: RowNames | None = None

    @property
    def tie_order(self) -> str:
        """What orders items at the same distance."""
        return "id" if self.tie_weights is None else "the query's real outputs"

    def own_items(self) -> dict[int, int]:
        """The id of the item that each query is itself, by its name."""
        if self.items is None:
            return {}
        wanted = {name: number for number, name in enumerate(self.names) if name}
        pairs = zip(self.items.names, self.items.ids.tolist(), strict=True)
        return {wanted[name]: item for name, item in pairs if name in wanted}

    def labels(self, query: int) -> set[str]:
        """Names of the labels of a query; empty if none are known."""
        return set() if self.row_names is None else set(self.row_names.label_list(query))


def id_of_row(row: str, row_names: RowNames | None, index_name: str, option: str = "--row") -> int:
    """The id of the item that an option gives: by number if there is such an id, or else by name."""
    number = int(row) if row.removeprefix("-").isdecimal() else None
    named = [] if row_names is None else row_names.ids_of(row)
    has_number = number is not None and row_names is not None and row_names.position(number) is not None
    if number is not None and (has_number or not named):
        others = [row_id for row_id in named if row_id != number]
        if others:
            print_note(f"{option} {row} is the item with id {row}; the one called {row!r} has id {others[0]}.")
        return number
    if row_names is None:
        raise ConfigError(
            f"{option} needs the id of an item, a whole number, as {index_name} has no names; got {row!r}."
        )
    if not named:
        if not len(row_names.names):
            raise ConfigError(f"{index_name} has neither the id nor the name {row!r}.")
        if len(row_names.names) > MOST_NAMES:  # looking for a similar one would take long
            raise ConfigError(f"No item of {index_name} is called {row!r}; names look like {row_names.names[0]!r}.")
        raise ConfigError(unknown_name("item", row, row_names.names))
    if len(named) > 1:
        ids = ", ".join(map(str, named[:5])) + (" …" if len(named) > 5 else "")
        raise ConfigError(f"{len(named)} items are called {row!r}; give the id of one of them ({ids}).")
    return named[0]


def query_of_index(index: "SearchIndex", row_id: int, row_names: RowNames | None) -> SearchQueries:
    """The item with this id."""
    codes = index.codes_of([row_id])
    position = None if row_names is None else row_names.position(row_id)
    if row_names is None or position is None:
        return SearchQueries(codes, [f"id {row_id}"])
    own = row_names.take(np.array([position]))
    return SearchQueries(codes, own.names, own)


def queries_of_file(path: Path, index: "SearchIndex", index_name: str) -> SearchQueries:
    """All codes of a file."""
    codes, row_names = load_named_codes(path)
    check_same_model(index.metadata, codes.metadata, index_name, str(path))
    codes = _as_long_as(index, codes)
    ids = range(len(codes)) if codes.ids is None else codes.ids
    return SearchQueries(codes, [f"id {row_id}" for row_id in ids] if row_names is None else row_names.names, row_names)


def encoded_queries(
    model: str, inputs: list[str], index: "SearchIndex", index_name: str, *, rank: str, engine: Engine = "auto"
) -> SearchQueries:
    """Image files or data, encoded by the model that made the index, with the outputs that ``rank`` needs."""
    from scdh.cli.inputs import open_inputs
    from scdh.runs.encoding import KeptOutputs, hash_outputs_of_rows, named_codes
    from scdh.runs.folder import RunFolder

    source = open_inputs(inputs)
    hasher = RunFolder(model).load_model()
    check_same_model(index.metadata, {"model": hasher.fingerprint()}, index_name, model)
    rows = np.arange(len(source))
    batches = hash_outputs_of_rows(hasher, source, rows, workers=0, progress="encoding", engine=engine)
    kept = KeptOutputs(hasher, batches, always=True)
    codes, row_names = named_codes(hasher, source, kept)
    codes = _as_long_as(index, codes)
    tables = None if kept.u is None or codes.ranking == HAMMING else hasher.distance_tables(kept.u)
    weights = None if kept.u is None or codes.ranking != HAMMING else np.abs(kept.u[:, : codes.bits])
    if rank == "vectors":
        codes = codes.with_vectors(kept.u, "float16")
    u = kept.u[:, : codes.bits] if kept.u is not None and rank == "outputs" else None
    return SearchQueries(codes, row_names.names, row_names, source, u, tables, weights)


def _as_long_as(index: "SearchIndex", codes: Codes) -> Codes:
    """The first bits of the queries, if the index holds first bits of the same model's codes."""
    return codes.truncate(searched_bits(codes.bits, codes.metadata.get("model"), index.bits, index.metadata))


def ranked_by_model(queries: SearchQueries, model: str, index: "SearchIndex", index_name: str) -> SearchQueries:
    """Queries known by their codes only, with the tables of the model's own distance."""
    from scdh.runs.folder import RunFolder

    hasher = RunFolder(model).load_model()
    check_same_model(index.metadata, {"model": hasher.fingerprint()}, index_name, model)
    if hasher.method.ranking != queries.codes.ranking:
        name = hasher.method.about.title
        raise ConfigError(
            f"{index_name} is ranked by {queries.codes.ranking}, which {model} ({name}) does not compute."
        )
    return replace(queries, byte_tables=hasher.distance_tables(queries.codes))


def ids_with_labels(row_names: RowNames | None, labels: list[str], index_name: str) -> np.ndarray:
    """Ids of the items that have one of these labels."""
    if row_names is None or not row_names.labelled:
        raise ConfigError(f"--label needs items with labels, and there are none for {index_name}.")
    unknown = [label for label in labels if label not in row_names.label_names]
    if unknown:
        raise ConfigError(unknown_name("label", unknown[0], row_names.label_names))
    return row_names.ids_with_labels(labels)
