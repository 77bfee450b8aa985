"""Codes with ids, names and labels written in the formats of other programs.

Codes are packed rows in the order of ``numpy.packbits``, which all of these programs accept; a length that is not a
multiple of 8 is padded with zero bits, which change no distance.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError
from scdh.storage.files import replacing

ROWS = 1 << 16  # rows of one batch


def export_codes(path: str | os.PathLike[str], kind: str, codes: Codes, names: RowNames | None) -> None:
    """Write codes in one of ``FORMATS``, whole or not at all.

    Raises:
        ConfigError: if a library is missing.
    """
    with replacing(Path(path)) as temporary:
        FORMATS[kind](temporary, codes, names)


def _ids(codes: Codes) -> np.ndarray:
    return np.arange(len(codes)) if codes.ids is None else codes.ids


def _write_npy(path: Path, codes: Codes, names: RowNames | None) -> None:
    with path.open("wb") as file:
        np.save(file, codes.packed, allow_pickle=False)


def _write_faiss(path: Path, codes: Codes, names: RowNames | None) -> None:
    try:
        import faiss
    except ImportError:
        raise ConfigError("--to faiss needs faiss: pip install faiss-cpu.") from None
    index: Any = faiss.IndexBinaryFlat(8 * codes.packed.shape[1])
    ids = _ids(codes)
    if np.array_equal(ids, np.arange(len(codes))):
        index.add(codes.packed)
    else:
        index = faiss.IndexBinaryIDMap2(index)
        index.add_with_ids(codes.packed, ids)
    faiss.write_index_binary(index, str(path))


def _tables(codes: Codes, names: RowNames | None) -> Iterator[Any]:
    """Arrow tables of some rows each, with the columns id, code and, if known, name and labels."""
    import pyarrow as pa

    width = codes.packed.shape[1]
    metadata = {**{_text(key): _text(value) for key, value in codes.metadata.items()}, "bits": str(codes.bits)}
    for start in range(0, max(1, len(codes)), ROWS):
        packed, ids = codes.packed[start : start + ROWS], _ids(codes)[start : start + ROWS]
        flat = pa.array(packed.ravel(), pa.uint8())
        columns = {"id": pa.array(ids, pa.int64()), "code": pa.FixedSizeListArray.from_arrays(flat, width)}
        if names is not None:
            known = [_described(names, item) for item in ids.tolist()]
            columns["name"] = pa.array([name for name, _ in known], pa.string())
            columns["labels"] = pa.array([labels for _, labels in known], pa.list_(pa.string()))
        yield pa.table(columns).replace_schema_metadata(metadata)


def _write_parquet(path: Path, codes: Codes, names: RowNames | None) -> None:
    from pyarrow.parquet import ParquetWriter

    tables = _tables(codes, names)
    first = next(tables)
    with ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _write_arrow(path: Path, codes: Codes, names: RowNames | None) -> None:
    import pyarrow as pa

    tables = _tables(codes, names)
    first = next(tables)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _described(names: RowNames, item: int) -> tuple[str, list[str]]:
    """Name and labels as valid Unicode; file names may have any bytes."""
    position = names.position(item)
    if position is None:
        return "", []
    return _text(names.names[position]), [_text(label) for label in names.label_list(position)]


def _text(text: str) -> str:
    """The text with U+FFFD for surrogates, which stand for bytes that are not UTF-8 or come from a forged header."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _items(codes: Codes, names: RowNames | None) -> Iterator[tuple[int, np.ndarray, dict[str, Any]]]:
    for item, row in zip(_ids(codes).tolist(), codes.packed, strict=True):
        fields: dict[str, Any] = {}
        if names is not None:
            fields["name"], fields["labels"] = _described(names, item)
        yield item, row, fields


def _write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def _write_elasticsearch(path: Path, codes: Codes, names: RowNames | None) -> None:
    """The bulk format; a field of type dense_vector with element_type bit takes hexadecimal digits."""
    _write_bulk(path, codes, names, lambda row: row.tobytes().hex())


def _write_opensearch(path: Path, codes: Codes, names: RowNames | None) -> None:
    """The bulk format; a field of type knn_vector with data_type binary takes bytes as numbers from −128 to 127."""
    _write_bulk(path, codes, names, lambda row: row.view(np.int8).tolist())


def _write_bulk(path: Path, codes: Codes, names: RowNames | None, form: Callable[[np.ndarray], Any]) -> None:
    def lines() -> Iterator[dict[str, Any]]:
        for item, row, fields in _items(codes, names):
            yield {"index": {"_id": str(item)}}
            yield {"code": form(row), **fields}

    _write_lines(path, lines())


def _write_vespa(path: Path, codes: Codes, names: RowNames | None) -> None:
    """JSON lines for ``vespa feed``; the field is a tensor<int8>(x[bytes])."""

    _write_lines(
        path,
        (
            {"put": f"id:scdh:item::{item}", "fields": {"code": {"values": row.view(np.int8).tolist()}, **fields}}
            for item, row, fields in _items(codes, names)
        ),
    )


FORMATS: dict[str, Callable[[Path, Codes, RowNames | None], None]] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
    "npy": _write_npy,
    "faiss": _write_faiss,
    "elasticsearch": _write_elasticsearch,
    "opensearch": _write_opensearch,
    "vespa": _write_vespa,
}
