"""Texts of rows as sequences: each of millions of names takes its bytes and 8 more, and is decoded when it is read."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from scdh.errors import CodesError

# File names may hold bytes that are not UTF-8, which Python keeps as lone surrogates; tables may hold other lone
# surrogates. This writes any str and reads the same one back, where "surrogateescape" rejects the second kind.
_ERRORS = "surrogatepass"


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


class PackedTexts(RowTexts):
    """n immutable texts; equal to a list of the same texts.

    Args:
        data: uint8 [m], the bytes of all texts.
        ends: int64 [n], where each text ends in ``data``.

    Raises:
        CodesError: if the ends are not in ascending order up to m.

    >>> PackedTexts.of(["a", "", "é"])[2]
    'é'
    """

    def __init__(self, data: np.ndarray, ends: np.ndarray) -> None:
        if data.dtype != np.uint8 or ends.dtype != np.int64 or data.ndim != 1 or ends.ndim != 1:
            raise CodesError("texts must be bytes and whole numbers, where each text ends")
        borders = np.concatenate([[0], ends])
        if np.any(borders[1:] < borders[:-1]) or borders[-1] != len(data):
            raise CodesError(f"texts must end in ascending order, the last one at {len(data)}")
        self.data, self.ends = data, ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> "PackedTexts":
        """Pack any texts."""
        if isinstance(texts, PackedTexts):
            return texts
        encoded = [text.encode("utf-8", _ERRORS) for text in texts]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    @classmethod
    def concatenated(cls, parts: Sequence[Sequence[str]]) -> "PackedTexts":
        """The texts of all parts, one part after the other; millions that are packed already are not decoded."""
        packed = [cls.of(part) for part in parts]
        starts = np.cumsum([0, *(len(part.data) for part in packed)])
        ends = [part.ends + start for part, start in zip(packed, starts, strict=False)]
        return cls(
            np.concatenate([np.empty(0, np.uint8), *(part.data for part in packed)]),
            np.concatenate([np.empty(0, np.int64), *ends]),
        )

    def __len__(self) -> int:
        return len(self.ends)

    def text_of(self, row: int) -> str:
        return _decoded(self.data[self.ends[row - 1] if row else 0 : self.ends[row]].tobytes())

    def __iter__(self) -> Iterator[str]:
        data, start = self.data.tobytes(), 0
        for end in self.ends.tolist():
            yield _decoded(data[start:end])
            start = end

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedTexts({len(self)} texts)"


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8", _ERRORS)
    except UnicodeDecodeError:
        raise CodesError(f"A stored name is not text: {data[:40]!r}.") from None
