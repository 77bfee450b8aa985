"""Names and labels that a search engine stores, in the form that commands show; only the requested ones are read."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from scdh.data.row_names import RowNames
from scdh.index.items import Items
from scdh.label_arrays import no_labels

if TYPE_CHECKING:
    from scdh.index.search_index import SearchEngine


def items_of(row_names: RowNames | None) -> Items | None:
    """Names and labels of all rows, as an engine takes them."""
    if row_names is None:
        return None
    return Items(list(row_names.names), [row_names.label_list(row) for row in range(len(row_names.ids))])


def row_names_of(engine: "SearchEngine", ids: Iterable[int]) -> RowNames | None:
    """Names and labels of these items; None if the engine stores none of them."""
    wanted = np.unique(np.fromiter(ids, np.int64))
    items = engine.items_of(wanted)
    if not any(items.names) and not any(items.labels):
        return None
    label_names = sorted({label for own in items.labels for label in own})
    numbers = {label: number for number, label in enumerate(label_names)}
    labels = no_labels(len(wanted))
    if all(len(own) <= 1 for own in items.labels):
        labels[:] = [numbers[own[0]] if own else -1 for own in items.labels]
    else:
        labels = np.zeros((len(wanted), len(label_names)), np.uint8)
        for row, own in enumerate(items.labels):
            labels[row, [numbers[label] for label in own]] = 1
    return RowNames(wanted, items.names, labels, label_names)


def rows_called(engine: "SearchEngine", text: str) -> RowNames | None:
    """Names and labels of the items with this text as id or name; None if the engine stores none."""
    ids = list(engine.named([text]))
    number = int(text) if text.removeprefix("-").isdecimal() else None
    if number is not None and -(1 << 63) < number < 1 << 63 and engine.contains([number])[0]:
        ids.append(number)
    return row_names_of(engine, ids) if ids else RowNames(np.empty(0, np.int64), [], no_labels(0), [])
