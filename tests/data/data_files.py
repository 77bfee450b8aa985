"""Tiny files in the real formats, written by the tests that read them."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def picture(seed: int, size: tuple[int, int] = (20, 16)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def encoded(seed: int, size: tuple[int, int] = (20, 16), kind: str = "JPEG") -> bytes:
    out = io.BytesIO()
    picture(seed, size).save(out, kind)
    return out.getvalue()


def write_pictures(root: Path, paths: list[str]) -> None:
    for i, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        picture(i).save(root / path)


def write_parquet(path: Path, columns: dict[str, Any], features: dict[str, Any] | None = None) -> Path:
    """With ``features``, Hugging Face's metadata is written as `datasets` writes it."""
    table = pa.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=3)
    return path


def image_cells(count: int) -> pa.Array:
    cells = [{"bytes": encoded(i), "path": f"{i}.jpg"} for i in range(count)]
    return pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def class_label(*names: str) -> dict[str, Any]:
    return {"names": list(names), "_type": "ClassLabel"}
