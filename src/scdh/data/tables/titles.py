"""What the rows of a table are called: by the user's own ids where the table has them, else by file and number."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from scdh.data.packed_texts import RowTexts


class RowTitles(RowTexts):
    """The name of every row, made when it is asked for.

    Args:
        parts: (name, number of rows) of each file the rows came from.
        ids: text or numbers [n], or None; a row without one is called by file and number.
    """

    def __init__(self, parts: list[tuple[str, int]], ids: pa.ChunkedArray | None = None) -> None:
        self.parts = parts
        self._starts = starts(rows for _, rows in parts)
        self._ids = None if ids is None else ids.cast(pa.string()).combine_chunks()

    def __len__(self) -> int:
        return sum(rows for _, rows in self.parts)

    def text_of(self, row: int) -> str:
        return self.id_of(row) or self.where(row)

    def id_of(self, row: int) -> str:
        """The user's own id of a row; empty where it has none."""
        return "" if self._ids is None else self._ids[row].as_py() or ""

    def where(self, row: int) -> str:
        """File and row number within it, for messages."""
        part = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self.parts[part][0]} row {row - int(self._starts[part])}"


def starts(lengths: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *lengths])[:-1]
