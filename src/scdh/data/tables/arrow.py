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
from scdh.data.source import BadImage, Source, file_stamps
from scdh.data.tables.columns import (
    choose_image_column,
    choose_label_columns,
    choose_split_column,
    read_labels,
    read_split,
)
from scdh.errors import DataError

PROBED_PATHS = 20


class ArrowSource(Source):
    """Images in a column of a table.

    Args:
        table: its image column holds struct{bytes, path}, bytes, or paths.
        name: how messages call the source.
        parts: (name, number of rows) of each file the rows came from, so that messages can name file and row.
        folder: what paths are relative to; None for the current folder.
        image_column, label_column: as in :func:`scdh.data.open.open_source`.
        split_column: the column of the split; None chooses it by usual names.
        split: str array [n], in place of a split column.
        split_origin: where ``split`` comes from, for messages.
    """

    kind: Literal["images", "features"] = "images"

    def __init__(
        self,
        table: pa.Table,
        *,
        name: str,
        parts: list[tuple[str, int]] | None = None,
        folder: Path | None = None,
        image_column: str | None = None,
        label_column: str | None = None,
        split_column: str | None = None,
        split: np.ndarray | None = None,
        split_origin: str = Source.split_origin,
    ) -> None:
        if table.num_rows == 0:
            raise DataError(f"{name} has no rows.")
        self.name = name
        column = choose_image_column(table, name, image_column)
        label_columns = choose_label_columns(table, name, label_column, column)
        self.labels, self.label_names = read_labels(table, name, label_columns)
        self.split, self.split_origin = split, split_origin
        chosen = None if split is not None else choose_split_column(table, name, split_column)
        if chosen is not None:
            self.split, self.split_origin = read_split(table, name, chosen), f"column {chosen!r} of {name}"
        self._parts = parts or [(name, table.num_rows)]
        self._part_starts = _starts(rows for _, rows in self._parts)
        self._folder = folder or Path()
        self._chunks = [_bytes_and_paths(chunk, name, column) for chunk in table[column].chunks]
        self._chunk_starts = _starts(len(chunk) for chunk in table[column].chunks)
        self._paths_only = all(data is None for data, _ in self._chunks)
        if self._paths_only:
            self._refuse_wrong_folder()

    def image(self, row: int, at_least: int | None = None) -> Image.Image:
        data, path = self._cell(row)
        if data is None and path is None:
            raise BadImage(self._where(row), "the cell is empty")
        if data is not None:
            return decode(data, self._where(row), at_least)
        return decode(self._folder / str(path), str(self._folder / str(path)), at_least)

    def item_name(self, row: int) -> str:
        if self._paths_only:
            path = self._cell(row)[1]
            if path:
                return str(self._folder / path)
        return self._where(row)

    def stable_names(self) -> Iterable[str]:
        if self._paths_only:
            return (self._cell(row)[1] or "" for row in range(len(self)))
        return (f"{name} {rows}" for name, rows in self._parts)

    def content_samples(self) -> Iterable[bytes]:
        if self._paths_only:
            return file_stamps(self._folder / (self._cell(row)[1] or "") for row in range(len(self)))
        # The length of every image, since another image rarely has the same; and some whole images.
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

    def _where(self, row: int) -> str:
        part = int(np.searchsorted(self._part_starts, row, side="right")) - 1
        return f"{self._parts[part][0]} row {row - int(self._part_starts[part])}"

    def _refuse_wrong_folder(self) -> None:
        """If none of the first paths exists, the folder is wrong; that is not a matter of single bad images."""
        probed = [self._cell(row)[1] for row in range(min(PROBED_PATHS, len(self)))]
        if not any(path and (self._folder / path).is_file() for path in probed):
            raise DataError(
                f"{self.name}: none of the first {len(probed)} paths exists below {self._folder}, "
                f"for example {probed[0]!r}; expected paths relative to that folder, or absolute ones."
            )


def _starts(lengths: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *lengths])[:-1]


def _bytes_and_paths(chunk: pa.Array, name: str, column: str) -> tuple[pa.Array | None, pa.Array | None]:
    """The arrays of encoded images and of paths; either may be None."""
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    kind = chunk.type
    if pa.types.is_struct(kind) and (kind.get_field_index("bytes") >= 0 or kind.get_field_index("path") >= 0):
        fields = dict(zip([field.name for field in kind], chunk.flatten(), strict=True))
        data, paths = fields.get("bytes"), fields.get("path")
        # Where all bytes are null, the images are in the files of the paths.
        return (None if data is None or data.null_count == len(data) else data), paths
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return chunk, None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return None, chunk
    raise DataError(f"{name}: the image column {column!r} must hold bytes, paths or both, not {kind}.")
