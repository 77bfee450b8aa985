"""One source for every kind of table: parquet, CSV and Hugging Face data sets are all read as Arrow tables."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from scdh.data.images.decode import decode
from scdh.data.packed_texts import RowTexts
from scdh.data.regular_files import problem_of_file
from scdh.data.source import BadImage, Source, file_stamps
from scdh.data.tables.vectors import is_list
from scdh.errors import DataError


class RowTitles(RowTexts):
    """The name of every row, made on request.

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


PROBED_PATHS = 20


class ArrowSource(Source):
    """Images in a column of a table; :func:`scdh.data.tables.table.open_table` finds the columns."""

    kind: Literal["images", "features"] = "images"

    def __init__(
        self,
        images: pa.ChunkedArray,
        labels: np.ndarray,
        label_names: list[str],
        *,
        name: str,
        column: str,
        titles: RowTitles,
        folder: Path,
    ) -> None:
        self.name = name
        self.labels = labels
        self.label_names = label_names
        self._titles, self._folder = titles, folder
        self._chunks = [_bytes_and_paths(chunk, name, column) for chunk in images.chunks]
        self._chunk_starts = starts(len(chunk) for chunk in images.chunks)
        self.has_paths = all(data is None for data, _ in self._chunks)
        if self.has_paths:
            self._check_folder()

    def image(self, row: int, at_least: int | None = None) -> Image.Image:
        file = self.image_file(row)
        return decode(file, str(file) if isinstance(file, Path) else self._titles.where(row), at_least)

    def image_file(self, row: int) -> Path | memoryview:
        data, path = self._cell(row)
        if data is not None:
            return data
        if path is None:
            raise BadImage(self._titles.where(row), "the cell is empty")
        return self._folder / path

    def item_name(self, row: int) -> str:
        path = self._cell(row)[1] if self.has_paths else None
        return self._titles.id_of(row) or (str(self._folder / path) if path else self._titles.where(row))

    def stable_names(self) -> Iterable[str]:
        if self.has_paths:
            return (self._cell(row)[1] or "" for row in range(len(self)))
        return (f"{name} {rows}" for name, rows in self._titles.parts)

    def content_samples(self) -> Iterable[bytes]:
        if self.has_paths:
            return file_stamps(self._folder / (self._cell(row)[1] or "") for row in range(len(self)))
        # The length of every image, which rarely is that of another image; and some whole images.
        encoded = [data for data, _ in self._chunks if data is not None]
        lengths = (pc.binary_length(data).to_numpy(zero_copy_only=False).tobytes() for data in encoded)
        return chain(lengths, super().content_samples())

    def _cell(self, row: int) -> tuple[memoryview | None, str | None]:
        if not 0 <= row < len(self):
            raise DataError(f"{self.name} has {len(self)} rows, so there is no row {row}.")
        chunk = int(np.searchsorted(self._chunk_starts, row, side="right")) - 1
        data, paths = self._chunks[chunk]
        position = row - int(self._chunk_starts[chunk])
        encoded = data[position].as_buffer() if data is not None else None
        path = paths[position].as_py() if paths is not None else None
        return (memoryview(encoded) if encoded is not None else None), (path or None)

    def _check_folder(self) -> None:
        """If none of the first paths exists, the folder is wrong, rather than single images."""
        probed = [self._cell(row)[1] for row in range(min(PROBED_PATHS, len(self)))]
        if not any_file(probed, self._folder):
            raise DataError(
                f"{self.name}: none of the first {len(probed)} paths exists below {self._folder}, "
                f"for example {probed[0]!r}; expected paths relative to that folder, or to another one given by --root "
                "(in Python root), or absolute ones."
            )


def any_file(paths: Iterable[str | None], folder: Path) -> bool:
    return any(path and not problem_of_file(folder / path) for path in paths)


def _bytes_and_paths(chunk: pa.Array, name: str, column: str) -> tuple[pa.Array | None, pa.Array | None]:
    """The arrays of encoded images and of paths; either may be None."""
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    kind = chunk.type
    if pa.types.is_struct(kind) and (kind.get_field_index("bytes") >= 0 or kind.get_field_index("path") >= 0):
        fields = dict(zip([field.name for field in kind], chunk.flatten(), strict=True))
        data, paths = fields.get("bytes"), fields.get("path")
        for part, is_kind, expected in ((data, _is_binary, "bytes"), (paths, _is_text, "text")):
            if part is not None and not is_kind(part.type) and part.null_count < len(part):
                raise DataError(f"{name}: the image column {column!r} has {part.type} where {expected} belongs.")
        data = None if data is None or not _is_binary(data.type) else data
        paths = None if paths is None or not _is_text(paths.type) else paths
        # Where all bytes are null, the images are in the files of the paths.
        return (None if data is None or data.null_count == len(data) else data), paths
    if _is_binary(kind):
        return chunk, None
    if _is_text(kind):
        return None, chunk
    hint = "; a column of embeddings is named by --vector-column (in Python vector_column)" if is_list(kind) else ""
    raise DataError(f"{name}: the image column {column!r} must hold bytes, paths or both, not {kind}{hint}.")


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
