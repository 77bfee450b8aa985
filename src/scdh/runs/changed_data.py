"""Find the files of a run's data that changed since training, and the split of the remaining files."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scdh.data.name_files import read_names_file, write_names_file
from scdh.data.protocol import PARTS, Protocol
from scdh.data.row_names import RowNames
from scdh.data.source import Source

MOST_NAMED = 3  # files in a message


@dataclass(frozen=True, eq=False)
class DataChanges:
    """Files that are gone, new, or have other labels. ``rows``, int64 [n], is the current row of each row of the
    training data, −1 if it is gone.
    """

    gone: list[str]
    new: list[str]
    relabelled: list[str]
    rows: np.ndarray

    def __str__(self) -> str:
        parts = [
            _counted(self.gone, "is gone", "are gone"),
            _counted(self.new, "is new", "are new"),
            _counted(self.relabelled, "has other labels", "have other labels"),
        ]
        return ", ".join(filter(None, parts)) or "the files are in another order"

    def protocol_of_remaining(self, protocol: Protocol, source: Source) -> Protocol:
        """The split of the files that are still there, as rows of ``source``; new files are in no part."""
        parts, counts = {}, []
        for part in PARTS:
            rows = self.rows[getattr(protocol, part)]
            parts[part] = rows[rows >= 0]
            if gone := int((rows < 0).sum()):
                counts.append(f"{gone:,} of {len(rows):,} {part} rows are gone")
        if self.new:
            counts.append(f"{len(self.new):,} new files are left out")
        about = "; ".join(filter(None, (protocol.about, "the data have changed since training", *counts)))
        return replace(protocol, **parts, source_fingerprint=source.fingerprint(), about=about)


def keep_rows(file: Path, source: Source) -> None:
    """Write names and labels of all rows of data that are files; other data have no names to compare by."""
    if source.has_paths:
        write_names_file(file, _rows_of(source))


def changes_since(file: Path, source: Source) -> DataChanges | None:
    """Compare ``source`` with the rows that :func:`keep_rows` wrote; None if there is nothing to compare."""
    earlier = read_names_file(file) if source.has_paths else None
    if earlier is None:
        return None
    present = _rows_of(source)
    places: defaultdict[str, list[int]] = defaultdict(list)  # a name may repeat in a table
    for row, name in reversed(list(enumerate(present.names))):
        places[name].append(row)
    rows = np.array([places[name].pop() if places.get(name) else -1 for name in earlier.names], np.int64)
    kept = np.flatnonzero(rows >= 0)
    gone = [earlier.names[row] for row in np.flatnonzero(rows < 0).tolist()]
    new = [present.names[row] for row in np.setdiff1d(np.arange(len(source)), rows).tolist()]
    relabelled = [
        earlier.names[row]
        for row in kept.tolist()
        if sorted(earlier.label_list(row)) != sorted(present.label_list(int(rows[row])))
    ]
    return DataChanges(gone, new, relabelled, rows)


def _rows_of(source: Source) -> RowNames:
    names = list(source.stable_names())
    return RowNames(np.arange(len(names)), names, source.labels, list(source.label_names))


def _counted(names: Sequence[str], one: str, several: str) -> str:
    if not names:
        return ""
    count = f"1 file {one}" if len(names) == 1 else f"{len(names):,} files {several}"
    return f"{count} ({', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''})"
