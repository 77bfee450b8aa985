"""The index that is served: its newest state, loaded while searches continue, and durable changes of it."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np

from scdh.codes import HAMMING, Codes, ranking_of
from scdh.codes.checks import check_same_model, searched_bits
from scdh.data.name_files import load_names, names_of_index, save_names_to_append
from scdh.data.row_names import RowNames, joined
from scdh.errors import CodesError, ExistingIdError, IdError, IndexLockedError, ScdhError, UnknownIdError
from scdh.index.engines import is_engine_address, open_index
from scdh.index.items import Items
from scdh.index.search_index import SearchEngine, SearchIndex
from scdh.index.store import IndexWriter
from scdh.label_arrays import no_labels
from scdh.serve.request_errors import RequestError, busy, invalid, unknown_item
from scdh.serve.snapshot import DistanceTables, Snapshot


@dataclass(frozen=True, eq=False)
class Addition:
    """Items to add.

    Args:
        codes: m codes.
        ids: m ids; None: the numbers after the largest id.
        names: m names; None: they have none.
        labels: the labels of each of the m items.
    """

    codes: Codes
    ids: list[int] | None
    names: list[str] | None
    labels: list[list[str]]


@dataclass(frozen=True)
class Removal:
    """An item to remove."""

    item_id: int


Change = Addition | Removal
# Labels of items that may have several take a byte for each item and label.
MOST_LABEL_CELLS = 1 << 28


class Collection:
    """An index file, or an index in a search engine. ``now`` is its newest state.

    One thread calls ``refresh`` and ``change``.

    Args:
        address: index file, or address of a search engine.
        names: codes or index file whose names are shown; None: those of the index file.
        model: fingerprint of the model that encodes the queries; an index of another one is rejected.
        bits: of the model's codes. An index of the same model may hold fewer first bits; ``self.bits`` says how many.
        ranking: the distance that its method ranks by.
        distance_tables: as for :class:`Snapshot`.
    """

    def __init__(
        self,
        address: str,
        names: str | None,
        model: str,
        bits: int,
        ranking: str = HAMMING,
        distance_tables: DistanceTables | None = None,
    ) -> None:
        self._address = address
        self._model = model
        self._ranking, self._distance_tables = ranking, distance_tables
        self._is_file = not is_engine_address(address)
        self._names = None if names is None else load_names(names)
        if names is not None and self._names is None:
            raise CodesError(f"There are no names in {names}.")
        self._other_names = names is not None
        index = open_index(address)
        self.bits = searched_bits(bits, model, index.bits, index.metadata)
        self.now = self._checked(index)

    def _checked(self, index: SearchIndex) -> Snapshot:
        if index.bits != self.bits:
            raise CodesError(f"The index holds codes of {index.bits} bits, but the model gives {self.bits} bits.")
        check_same_model(index.metadata, {"model": self._model}, "The index", "the model")
        if (ranking := ranking_of(index.metadata)) != self._ranking:
            raise CodesError(f"The index is ranked by {ranking}, but the model ranks by {self._ranking}.")
        own_names = self._is_file and not self._other_names
        names = names_of_index(Path(self._address), index) if own_names else self._names
        return Snapshot(index, names, self._distance_tables)

    def refresh(self) -> bool:
        """Load the newest state of the file; False if it is served already.

        A search engine always shows its newest state.

        Raises:
            CodesError: if the file cannot be read or is of another model; the state before it stays.
        """
        # A copy shares all arrays and tables, and searches that have begun continue with the earlier one.
        newer = copy.copy(self.now.index)
        if not newer.refresh():
            return False
        self.now = self._checked(newer)
        return True

    def close(self) -> None:
        """Release the connection of a search engine."""
        self.now.index.close()

    def change(self, changes: Sequence[Change]) -> list[list[int] | BaseException]:
        """Make changes durable, consecutive ones of the same kind in one commit; returns the ids of each. An error in
        one change is its result, and does not affect the others.
        """
        results: list[list[int] | BaseException] = []
        if not self._is_file:
            return [self._change_engine(change) for change in changes]
        try:
            writer = IndexWriter(self._address)
        except IndexLockedError as error:
            raise busy("programs that write the index") from error
        with writer:
            for kind, same_kind in groupby(changes, type):
                run: list[Any] = list(same_kind)
                try:
                    self.refresh()  # to the writer's state, as no other program can write now
                    results += self._add(writer, run) if kind is Addition else self._remove(writer, run)
                except Exception as error:  # results that were committed before it stay
                    results += [error] * len(run)
        self.refresh()
        return results

    def _add(self, writer: IndexWriter, additions: list[Addition]) -> list[list[int] | BaseException]:
        ids_so_far = copy.copy(self.now.index)  # in memory only: rejects existing ids and chooses new ones
        results: list[list[int] | BaseException] = []
        accepted: list[tuple[Addition, np.ndarray]] = []
        for addition in additions:
            try:
                if ids_so_far.vector_kind is not None:
                    raise invalid("Items of this index have vectors, so only `scdh index --append` can add to it.")
                self._check_labels(addition)
                ids = ids_so_far.add(addition.codes, addition.ids)
                accepted.append((addition, ids))
                results.append(ids.tolist())
            except RequestError as error:
                results.append(error)
            except CodesError as error:
                results.append(_id_error(error))
        if accepted:
            names = self._names_with(accepted)
            if names is not None:
                # Names first: a search ignores names that the index does not have, but needs those that it has.
                save_names_to_append(Path(self._address), writer.metadata, names)
            writer.add_all([(addition.codes, ids) for addition, ids in accepted])
        return results

    def _remove(self, writer: IndexWriter, removals: list[Removal]) -> list[list[int] | BaseException]:
        results: list[list[int] | BaseException] = []
        removed: set[int] = set()
        for removal in removals:
            try:
                if removal.item_id in removed:
                    raise unknown_item(removal.item_id)
                self.now.code_of(removal.item_id)
                removed.add(removal.item_id)
                results.append([removal.item_id])
            except RequestError as error:
                results.append(error)
        if removed:
            writer.remove(sorted(removed))
        return results

    def _check_labels(self, addition: Addition) -> None:
        if self._other_names and (addition.names or any(addition.labels)):
            raise _foreign_names()
        names = self.now.names
        is_several = max(map(len, addition.labels)) > 1
        if names is not None and names.labels.ndim == 1 and names.labelled and is_several:
            raise invalid("The items of this index have one label each, so no item can be added with several.")
        if is_several or (names is not None and names.labels.ndim == 2):
            new = {label for own in addition.labels for label in own}
            count = len(new.union(names.label_names if names is not None else ()))
            if count * len(self.now.index) > MOST_LABEL_CELLS:
                raise invalid(f"{count} labels are too many for {len(self.now.index)} items that have several each.")

    def _names_with(self, accepted: list[tuple[Addition, np.ndarray]]) -> RowNames | None:
        """The names of all items; None if none has any."""
        names = self.now.names
        has_new = any(addition.names or any(addition.labels) for addition, _ in accepted)
        if self._other_names or (names is None and not has_new):
            return None
        parts = [_new_names(addition, ids) for addition, ids in accepted]
        if names is None:
            known = self.now.index.ids
            names = RowNames(known, [""] * len(known), no_labels(len(known)), [])
        new_ids = np.concatenate([part.ids for part in parts])
        # Names of items that were removed stay until their id is given again.
        if (positions := names.positions_of(new_ids)).max() >= 0:
            names = names.take(np.setdiff1d(np.arange(len(names.ids)), positions))
        return joined([names, *parts], np.concatenate([names.ids, new_ids]))

    def _change_engine(self, change: Change) -> list[int] | BaseException:
        index = self.now.index
        try:
            if isinstance(change, Removal):
                self.now.code_of(change.item_id)
                index.remove([change.item_id])
                return [change.item_id]
            if self._other_names and (any(change.labels) or change.names):
                raise _foreign_names()
            items = Items(change.names or [""] * len(change.codes), change.labels)
            return cast(SearchEngine, index).add(change.codes, change.ids, items).tolist()
        except RequestError as error:
            return error
        except ScdhError as error:
            return _id_error(error)


def _foreign_names() -> RequestError:
    return invalid("Names and labels cannot be added, as they come from another file than the index.")


def _id_error(error: ScdhError) -> BaseException:
    """Report a mistake in the ids as the client's; anything else stays an error of the service."""
    match error:
        case ExistingIdError():
            return RequestError(409, "conflict", str(error))
        case UnknownIdError():
            return RequestError(404, "not_found", str(error))
        case IdError():
            return invalid(str(error))
    return error


def _new_names(addition: Addition, ids: np.ndarray) -> RowNames:
    names = [""] * len(ids) if addition.names is None else addition.names
    label_names = list(dict.fromkeys(label for own in addition.labels for label in own))
    numbers = {label: number for number, label in enumerate(label_names)}
    if max(map(len, addition.labels), default=0) <= 1:
        labels = np.array([numbers[own[0]] if own else -1 for own in addition.labels], np.int64)
    else:
        labels = np.zeros((len(ids), len(label_names)), np.uint8)
        for row, own in enumerate(addition.labels):
            labels[row, [numbers[label] for label in own]] = 1
    return RowNames(ids, names, labels, label_names)
