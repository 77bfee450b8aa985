"""Codes: binary codes of any length, one packed row per item, with optional ids beside them.

Layout. Bit j of an item is bit ``7 - j % 8`` of byte ``j // 8`` of its row (the order of ``numpy.packbits``:
the first bit is the highest of the first byte). Every row starts on a byte of its own, and the spare bits at
the end of a row are 0, so zero padding to 16, 64, … bits never changes a Hamming distance.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.errors import CodesError
from scdh.tensor_files import RESERVED, read_tensors, write_tensors

RANKING = "ranking"  # key of metadata: the distance that ranks these codes, where it is not the Hamming distance


class Codes:
    """n binary codes of ``bits`` bits each.

    >>> codes = Codes.from_signs([[0.3, -1.0, 0.0], [-2.0, 5.0, -0.1]])
    >>> codes
    Codes(2 × 3 bits)
    >>> codes.unpack().tolist()
    [[1, 0, 1], [0, 1, 0]]
    >>> codes.packed.tolist()
    [[160], [64]]
    """

    def __init__(
        self,
        packed: ArrayLike,
        bits: int,
        ids: ArrayLike | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Take rows that are packed already; the array is not copied, and is never written to."""
        rows = np.asarray(packed)
        if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or bits < 1:
            raise CodesError(f"bits must be a whole number of at least 1, got {bits!r}.")
        bits = int(bits)
        width = -(-bits // 8)
        if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width:
            raise CodesError(
                f"Packed codes of {bits} bits must be a uint8 array of shape [n, {width}], "
                f"got {rows.dtype} of shape {list(rows.shape)}."
            )
        spare = 8 * width - bits
        if spare and np.any(rows[:, -1] & np.uint8((1 << spare) - 1)):
            raise CodesError(f"The last {spare} bits of each packed row of {bits} bits must be 0, but some are 1.")
        self._packed = _read_only(rows)
        self._bits = bits
        self._ids = None if ids is None else _read_only(check_ids(ids, len(rows)))
        self._metadata = check_metadata(metadata)

    @classmethod
    def from_signs(
        cls, array: ArrayLike, ids: ArrayLike | None = None, metadata: Mapping[str, str] | None = None
    ) -> "Codes":
        """Of real outputs u [n, r]: bit = 1 iff u ≥ 0, so that sgn(0) = +1; of booleans: 1 iff True."""
        values = _two_dimensional(array)
        if values.dtype == np.bool_:
            # Asked of booleans, "≥ 0" would be true for False as well.
            return cls(np.packbits(values, axis=1), values.shape[1], ids, metadata)
        if values.dtype.kind == "u":
            raise CodesError(f"Values of type {values.dtype} have no sign; for 0/1 bits take Codes.from_bits.")
        if values.dtype.kind not in "fi":
            raise CodesError(f"Codes are made from real numbers or booleans, got values of type {values.dtype}.")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise CodesError(f"Codes need finite values, but row {row}, column {column} holds {values[row, column]}.")
        return cls(np.packbits(values >= 0, axis=1), values.shape[1], ids, metadata)

    @classmethod
    def from_bits(
        cls, array: ArrayLike, ids: ArrayLike | None = None, metadata: Mapping[str, str] | None = None
    ) -> "Codes":
        """Bits that are there already as 0/1 or False/True [n, r]; the opposite of ``unpack``."""
        values = _two_dimensional(array)
        if values.dtype.kind not in "biuf" or not np.all((values == 0) | (values == 1)):
            raise CodesError("Bits must be 0 or 1; for real values take Codes.from_signs.")
        return cls(np.packbits(values != 0, axis=1), values.shape[1], ids, metadata)

    @classmethod
    def concatenate(cls, parts: Sequence["Codes"]) -> "Codes":
        """One after the other; all parts need the same bits, and either all have ids or none has."""
        if len(parts) == 0:
            raise CodesError("There are no codes to put together: the list is empty.")
        lengths = sorted({part.bits for part in parts})
        if len(lengths) > 1:
            raise CodesError(f"Codes of different lengths cannot be put together: {lengths} bits.")
        with_ids = sum(part.ids is not None for part in parts)
        if with_ids not in (0, len(parts)):
            raise CodesError(f"Either all parts need ids or none, but {with_ids} of {len(parts)} have them.")
        ids = np.concatenate([part.ids for part in parts if part.ids is not None]) if with_ids else None
        same = all(part.metadata == parts[0].metadata for part in parts)
        return cls(
            np.concatenate([part.packed for part in parts]),
            lengths[0],
            ids,
            parts[0].metadata if same else None,
        )

    @property
    def bits(self) -> int:
        return self._bits

    @property
    def packed(self) -> NDArray[np.uint8]:
        """uint8 [n, ceil(bits/8)], read-only."""
        return self._packed

    @property
    def ids(self) -> NDArray[np.int64] | None:
        """int64 [n], read-only; None if the codes carry no ids."""
        return self._ids

    @property
    def metadata(self) -> dict[str, str]:
        """Words that travel with the codes into their file, such as the fingerprint of the model."""
        return dict(self._metadata)

    def unpack(self) -> NDArray[np.uint8]:
        """0/1 as uint8 [n, bits]."""
        return np.unpackbits(self._packed, axis=1, count=self._bits)

    def signs(self) -> NDArray[np.int8]:
        """−1/+1 as int8 [n, bits]: the h of the paper, where Hamming distance = |h − h'|²/4."""
        return self.unpack().astype(np.int8) * np.int8(2) - np.int8(1)

    def words(self) -> NDArray[np.uint64]:
        """Zero padded rows as uint64 [n, ceil(bits/64)]; the first byte is the lowest of its word."""
        count = -(-self._bits // 64)
        padded = np.zeros((len(self), 8 * count), dtype=np.uint8)
        padded[:, : self._packed.shape[1]] = self._packed
        return padded.view("<u8").astype(np.uint64, copy=False)

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, rows: Any) -> "Codes":
        """Rows by slice, index array or mask; a single index gives codes of one row."""
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            at = int(rows)
            if not -len(self) <= at < len(self):
                raise IndexError(f"Row {at} is outside of {len(self)} codes.")
            rows = slice(at, at + 1) if at != -1 else slice(at, None)
        elif not isinstance(rows, slice):
            rows = _row_choice(rows, len(self))
        ids = None if self._ids is None else self._ids[rows]
        return Codes(self._packed[rows], self._bits, ids, self._metadata)

    def __iter__(self) -> Iterator["Codes"]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Same bits, rows and ids; metadata does not count."""
        if not isinstance(other, Codes):
            return NotImplemented
        if self._bits != other._bits or not np.array_equal(self._packed, other._packed):
            return False
        if self._ids is None or other._ids is None:
            return self._ids is other._ids
        return np.array_equal(self._ids, other._ids)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Codes({len(self)} × {self._bits} bits{'' if self._ids is None else ', with ids'})"

    def save(self, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
        """Write a safetensors file that names its format; ``metadata`` adds to what the codes carry."""
        words = {**self._metadata, **check_metadata(metadata)}
        tensors: dict[str, NDArray[Any]] = {"packed": self._packed}
        if self._ids is not None:
            tensors["ids"] = self._ids
        write_tensors(path, tensors, "scdh-codes", self._bits, words)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Codes":
        """Read what ``save`` wrote; anything else is refused with one sentence."""
        tensors, bits, metadata = read_tensors(path, "scdh-codes", required=("packed",))
        return cls(tensors["packed"], bits, tensors.get("ids"), metadata)


def check_codes(value: object, name: str, bits: int | None = None) -> "Codes":
    """The value itself if it is ``Codes`` (of ``bits`` bits); otherwise one sentence that says what to do."""
    if not isinstance(value, Codes):
        raise CodesError(f"{name} must be Codes, got {type(value).__name__}; make them with Codes.from_signs(array).")
    if bits is not None and value.bits != bits:
        raise CodesError(f"{name} have {value.bits} bits, but {bits} bits were expected.")
    return value


def check_ids(ids: ArrayLike, count: int) -> NDArray[np.int64]:
    """Ids as int64 [count]; they may come in any order."""
    array = np.asarray(ids)
    if array.ndim != 1 or len(array) != count:
        raise CodesError(f"There must be one id per code, so {count} in one row, got shape {list(array.shape)}.")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise CodesError(f"Ids must be whole numbers, got values of type {array.dtype}.")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise CodesError(f"Ids must fit into 64 bits with a sign, got {array.max()}.")
    return array.astype(np.int64)


def _two_dimensional(array: ArrayLike) -> NDArray[Any]:
    try:
        values = np.asarray(array)
    except (ValueError, TypeError, RuntimeError) as error:
        raise CodesError(f"Codes are made from an array of shape [n, bits], which this is not: {error}.") from error
    if values.ndim != 2 or values.shape[1] == 0:
        raise CodesError(f"Codes need an array of shape [n, bits] with at least 1 bit, got shape {list(values.shape)}.")
    return values


def _row_choice(rows: Any, count: int) -> NDArray[Any]:
    choice = np.asarray(rows)
    if choice.ndim != 1 or (choice.size and choice.dtype.kind not in "biu"):
        raise CodesError(
            f"Rows are chosen by a slice, whole numbers or a mask, got {choice.dtype} of shape {list(choice.shape)}."
        )
    if choice.dtype == np.bool_:
        if len(choice) != count:
            raise CodesError(f"A mask over {count} codes needs {count} values, got {len(choice)}.")
        return choice
    return choice.astype(np.int64)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    words = dict(metadata or {})
    for key, value in words.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise CodesError(f"Metadata must be words, got {key!r}: {value!r}.")
        if key in RESERVED:
            raise CodesError(f"The metadata key {key!r} is kept for the file format; choose another name.")
    return words
