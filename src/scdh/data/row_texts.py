"""Texts of rows that are made when they are looked at, as a sequence."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload


class RowTexts(Sequence[str]):
    """A sequence of texts; ``text_of`` gives one of them."""

    @abstractmethod
    def text_of(self, row: int) -> str:
        """The text of a row, from 0 to the number of rows."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        rows = range(len(self))[row]
        return self.text_of(rows) if isinstance(rows, int) else [self.text_of(one) for one in rows]
