"""Codes: binary codes of any length, one packed row per item, with optional ids.

Layout. Bit j of an item is bit ``7 - j % 8`` of byte ``j // 8`` of its row (the order of ``numpy.packbits``:
the first bit is the highest of the first byte). Every row starts on a byte of its own, and the spare bits at
the end of a row are 0, so zero padding to 16, 64, … bits never changes a Hamming distance.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes.arguments import (
    check_bits,
    check_ids,
    check_metadata,
    check_signs,
    packed_array,
    read_only_view,
    row_choice,
    two_dimensional,
)
from scdh.codes.vectors import VectorKind, check_vectors, rounded
from scdh.errors import CodesError
from scdh.storage.tensor_files import StoredTensors, open_tensors, short, write_tensors

HAMMING = "Hamming distance"
# The metadata key that names the distance by which these codes rank items; without it, Hamming distance.
RANKING = "ranking"
FORMAT = "scdh-codes"


def ranking_of(metadata: Mapping[str, str]) -> str:
    """The name of the distance by which codes with these metadata rank items."""
    return metadata.get(RANKING, HAMMING)


def ranking_metadata(ranking: str) -> dict[str, str]:
    """The metadata of codes that rank by this distance."""
    return {} if ranking == HAMMING else {RANKING: ranking}


class Codes:
    """n immutable binary codes of ``bits`` bits each.

    ``len(codes)`` is n, ``codes[rows]`` chooses rows by number, slice, index array or mask, iterating gives one row at
    a time, and ``==`` compares bits and ids, not metadata. Made by ``from_signs``, ``from_bits`` or ``load``, or from
    packed rows.

    Args:
        packed: uint8 [n, ceil(bits / 8)], one row per code as described at the top of this file, spare bits 0; the
            array is not copied.
        bits: the number of bits of each code, at least 1.
        ids: int64 [n], or None if the codes carry no ids.
        metadata: text by name that is saved with the codes, such as the fingerprint of the model.
        vectors: int8 or float16 [n, width] to rank by, as ``with_vectors`` makes them; or None.

    Raises:
        CodesError: if an argument has another type or shape, or spare bits are not 0.

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
        *,
        vectors: NDArray[Any] | None = None,
    ) -> None:
        if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or bits < 1:
            raise CodesError(f"bits must be a whole number of at least 1, got {bits!r}.")
        bits = int(bits)
        rows = packed_array(packed, bits)
        width = rows.shape[1]
        spare = 8 * width - bits
        if spare and np.any(rows[:, -1] & np.uint8((1 << spare) - 1)):
            raise CodesError(f"The last {spare} bits of each packed row of {bits} bits must be 0, but some are 1.")
        self._packed = read_only_view(rows)
        self._bits = bits
        self._ids = None if ids is None else read_only_view(check_ids(ids, len(rows)))
        self._metadata = check_metadata(metadata)
        self._vectors = None if vectors is None else read_only_view(check_vectors(vectors, len(rows)))

    @classmethod
    def from_signs(
        cls, array: ArrayLike, ids: ArrayLike | None = None, metadata: Mapping[str, str] | None = None
    ) -> "Codes":
        """Codes from the signs of real outputs u: bit = 1 iff u ≥ 0, so that sgn(0) = +1.

        Args:
            array: real numbers [n, bits], all finite; or booleans [n, bits], whose bit is 1 iff True. Numbers that are
                all 0 or 1 are rejected: their signs are all +, which is never intended.
            ids: int64 [n], or None.
            metadata: as for ``Codes``.

        Raises:
            CodesError: if the array has another shape or type, a value that is not finite, or 0s and 1s only.
        """
        values = two_dimensional(array)
        if values.dtype == np.bool_:
            # False ≥ 0 is true
            return cls(np.packbits(values, axis=1), values.shape[1], ids, metadata)
        check_signs(values)
        return cls(np.packbits(values >= 0, axis=1), values.shape[1], ids, metadata)

    @classmethod
    def from_bits(
        cls, array: ArrayLike, ids: ArrayLike | None = None, metadata: Mapping[str, str] | None = None
    ) -> "Codes":
        """Codes from single bits; the opposite of ``unpack``.

        Args:
            array: 0/1 or False/True [n, bits].
            ids: int64 [n], or None.
            metadata: as for ``Codes``.

        Raises:
            CodesError: if a value is neither 0 nor 1.
        """
        values = two_dimensional(array)
        check_bits(values)
        return cls(np.packbits(values != 0, axis=1), values.shape[1], ids, metadata)

    @classmethod
    def from_packed(
        cls,
        rows: ArrayLike | Sequence[str],
        bits: int | None = None,
        ids: ArrayLike | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> "Codes":
        """Codes that another program packed, such as ``ubinary`` embeddings or perceptual hashes.

        Args:
            rows: uint8 [n, bytes] in the order of ``numpy.packbits``; or n texts of hexadecimal digits, all of one
                length, such as the 16 digits of a 64-bit pHash. int8 is rejected, because programs differ in what it
                means: sentence-transformers and Cohere subtract 128, Vespa reinterprets the byte.
            bits: the number of bits; None: all bits of the rows.
            ids: int64 [n], or None.
            metadata: as for ``Codes``.

        Raises:
            CodesError: if the rows have another type or shape, or are not hexadecimal digits.

        >>> Codes.from_packed(["ff00", "0f0f"]).unpack().sum(axis=1).tolist()
        [8, 8]
        """
        if isinstance(rows, Sequence) and len(rows) and all(isinstance(row, str) for row in rows):
            packed = _from_hex([str(row) for row in rows])
        else:
            packed = np.asarray(rows)
        if packed.dtype == np.int8:
            raise CodesError(
                "int8 rows are ambiguous: for sentence-transformers and Cohere use (rows.astype(int16) + "
                "128).astype(uint8), for Vespa rows.view(uint8)."
            )
        if packed.ndim != 2 or packed.dtype != np.uint8:
            raise CodesError(f"Packed rows must be uint8 [n, bytes], got {packed.dtype} of shape {list(packed.shape)}.")
        return cls(packed, 8 * packed.shape[1] if bits is None else bits, ids, metadata)

    @classmethod
    def concatenate(cls, parts: Sequence["Codes"]) -> "Codes":
        """All rows of the parts, one part after the other.

        Args:
            parts: codes of the same bits and ranking, all with ids or none, and all with vectors of one kind or none.
                Metadata that differ are left out.

        Raises:
            CodesError: if there is no part, or the parts do not fit together.
        """
        if len(parts) == 0:
            raise CodesError("There are no codes to concatenate: the list is empty.")
        lengths = sorted({part.bits for part in parts})
        if len(lengths) > 1:
            raise CodesError(f"Codes of different lengths cannot be concatenated: {lengths} bits.")
        rankings = sorted({part.ranking for part in parts})
        if len(rankings) > 1:
            raise CodesError(f"Codes ranked by {rankings[0]} and by {rankings[1]} cannot be concatenated.")
        with_ids = sum(part.ids is not None for part in parts)
        if with_ids not in (0, len(parts)):
            raise CodesError(f"Either all parts need ids or none, but {with_ids} of {len(parts)} have them.")
        ids = np.concatenate([part.ids for part in parts if part.ids is not None]) if with_ids else None
        vectors = [part.vectors for part in parts if part.vectors is not None]
        if len({(array.dtype, array.shape[1]) for array in vectors}) > 1 or len(vectors) not in (0, len(parts)):
            raise CodesError("Either all parts need vectors of one kind and width, or none.")
        metadata = parts[0].metadata
        if any(part.metadata != metadata for part in parts):
            metadata = ranking_metadata(rankings[0])
        packed = np.concatenate([part.packed for part in parts])
        return cls(packed, lengths[0], ids, metadata, vectors=np.concatenate(vectors) if vectors else None)

    def with_metadata(self, metadata: Mapping[str, str]) -> "Codes":
        """The same codes, vectors and ids with other ``metadata``, text by name."""
        return Codes(self._packed, self._bits, self._ids, metadata, vectors=self._vectors)

    def with_vectors(self, vectors: ArrayLike | None, kind: VectorKind = "int8") -> "Codes":
        """The same codes with real vectors, by which ``HammingIndex.search(…, rescore=4)`` ranks.

        Args:
            vectors: real numbers [n, width], such as the outputs u of ``Hasher.encode(images, outputs=True)``. Their
                lengths do not matter. None: codes without vectors.
            kind: "int8" or "float16", to which they are rounded.

        Raises:
            CodesError: if the values are not finite numbers [n, width].
        """
        rows = None if vectors is None else rounded(vectors, kind)
        return Codes(self._packed, self._bits, self._ids, self._metadata, vectors=rows)

    def truncate(self, bits: int) -> "Codes":
        """The first bits of every code, such as of nested codes, with the same ids, vectors and metadata.

        Args:
            bits: how many, from 1 to ``self.bits``.

        Raises:
            CodesError: if the codes have fewer bits, or rank by another distance than the Hamming distance.

        >>> Codes.from_packed(["ff00", "0f0f"]).truncate(6).unpack().tolist()
        [[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]]
        """
        if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= self._bits:
            raise CodesError(f"Codes of {self._bits} bits can be cut to 1 to {self._bits} bits, not to {bits!r}.")
        if bits == self._bits:
            return self
        if self.ranking != HAMMING:
            raise CodesError(f"Codes that rank by {self.ranking} cannot be cut: their bits have no meaning one by one.")
        packed = self._packed[:, : -(-int(bits) // 8)]
        if bits % 8:
            packed = packed.copy()
            packed[:, -1] &= np.uint8(0xFF00 >> bits % 8 & 0xFF)
        return Codes(packed, bits, self._ids, self._metadata, vectors=self._vectors)

    @property
    def bits(self) -> int:
        """The number of bits of each code."""
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
    def vectors(self) -> NDArray[Any] | None:
        """int8 or float16 [n, width], read-only; None if the codes carry no vectors."""
        return self._vectors

    @property
    def metadata(self) -> dict[str, str]:
        """Text by name that is saved with the codes, such as the fingerprint of the model; a copy."""
        return dict(self._metadata)

    @property
    def ranking(self) -> str:
        """The name of the distance by which these codes rank items."""
        return ranking_of(self._metadata)

    def unpack(self) -> NDArray[np.uint8]:
        """The bits as 0/1, uint8 [n, bits]."""
        return np.unpackbits(self._packed, axis=1, count=self._bits)

    def signs(self) -> NDArray[np.int8]:
        """The bits as −1/+1, int8 [n, bits]: the h of the paper, where Hamming distance = |h − h'|²/4."""
        return self.unpack().astype(np.int8) * np.int8(2) - np.int8(1)

    def words(self) -> NDArray[np.uint64]:
        """Rows padded with zeros as uint64 [n, ceil(bits / 64)]; the first byte is the lowest of the first number."""
        count = -(-self._bits // 64)
        padded = np.zeros((len(self), 8 * count), dtype=np.uint8)
        padded[:, : self._packed.shape[1]] = self._packed
        return padded.view("<u8").astype(np.uint64, copy=False)

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, rows: Any) -> "Codes":
        """The codes of these rows with their ids and vectors.

        Args:
            rows: a slice, int64 [m], boolean [n], or one number (which gives codes of one row).

        Raises:
            IndexError: if a row number is out of range.
            CodesError: if it is something else, or a mask of another length.
        """
        if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
            row = int(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"Row {row} is outside of {len(self)} codes.")
            rows = slice(row, row + 1) if row != -1 else slice(row, None)
        elif not isinstance(rows, slice):
            rows = row_choice(rows, len(self))
        ids = None if self._ids is None else self._ids[rows]
        vectors = None if self._vectors is None else self._vectors[rows]
        return Codes(self._packed[rows], self._bits, ids, self._metadata, vectors=vectors)

    def __iter__(self) -> Iterator["Codes"]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Same bits, rows and ids; metadata and vectors do not count."""
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
        """Write a safetensors file that names its format, whole or not at all.

        Args:
            path: the file, which is replaced if it exists.
            metadata: further metadata to save; it replaces values of the same name.
        """
        write_codes(path, self, {}, check_metadata(metadata))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Codes":
        """Read the file ``path`` that ``save`` wrote.

        Raises:
            CodesError: if there is no such file, or it is damaged, cut short or of another format.
        """
        with open_tensors(path, FORMAT) as stored:
            return read_codes(stored)


def write_codes(
    path: str | os.PathLike[str], codes: Codes, more: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write a codes file with ``more`` arrays, such as names, which ``Codes.load`` ignores."""
    tensors: dict[str, NDArray[Any]] = {**more, "packed": codes.packed}
    if codes.ids is not None:
        tensors["ids"] = codes.ids
    if codes.vectors is not None:
        tensors["vectors"] = codes.vectors
    write_tensors(path, tensors, FORMAT, {**codes.metadata, **metadata, "bits": str(codes.bits)})


def read_codes(stored: StoredTensors) -> Codes:
    """The codes of an open codes file."""
    bits = stored.text("bits")
    if not re.fullmatch("[0-9]{1,9}", bits):
        raise CodesError(f"{stored.path} says it is a {FORMAT} file, but the number of bits is missing from it.")
    packed = stored.read("packed")
    ids, vectors = (stored.read(name) if name in stored else None for name in ("ids", "vectors"))
    return Codes(packed, int(bits), ids, stored.metadata, vectors=vectors)


def _from_hex(rows: Sequence[str]) -> NDArray[np.uint8]:
    """Texts of hexadecimal digits as bytes, uint8 [n, digits / 2]."""
    digits = len(rows[0])
    for row in rows:
        if len(row) != digits or digits % 2 or not re.fullmatch("[0-9a-fA-F]+", row):
            raise CodesError(
                f"Hashes must be hexadecimal digits of one even length; the first has {digits}, one is {short(row)}."
            )
    return np.frombuffer(bytes.fromhex("".join(rows)), np.uint8).reshape(len(rows), digits // 2)
