"""Messages that say what to do."""

import types
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scdh.data import ArraySource, open_source
from scdh.data.batches.loaders import evaluation_batches
from scdh.data.images.transforms import Preprocess
from scdh.data.source import BadImage
from scdh.data.tables import readers
from scdh.errors import DataError
from tests.data.data_files import write_pictures


def test_sparse_matrices_are_named(tmp_path: Path) -> None:
    arrays = {"indices": [0, 1], "indptr": [0, 1, 2], "data": [0.5, 1.0], "shape": [2, 2], "format": b"csr"}
    np.savez(tmp_path / "sparse.npz", **{name: np.array(values) for name, values in arrays.items()})
    with pytest.raises(DataError, match=r"sparse\.npz contains a sparse matrix of scipy; .* TruncatedSVD"):
        open_source(tmp_path / "sparse.npz")
    with pytest.raises(DataError, match=r"is a sparse matrix; .* TruncatedSVD"):
        ArraySource(types.SimpleNamespace(tocsr=None))  # type: ignore[arg-type]


def test_a_hub_data_set_without_splits_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneSplit:
        """As datasets.Dataset: iterating gives rows."""

        table = pa.table({"embedding": [[0.0, 1.0], [1.0, 0.0]]})
        data = types.SimpleNamespace(table=table)
        features = types.SimpleNamespace(arrow_schema=table.schema)

        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Any:
            return iter([{"embedding": [0.0, 1.0]}, {"embedding": [1.0, 0.0]}])

    package = types.SimpleNamespace(__version__="4.0.0", load_dataset=lambda *_, **__: OneSplit())
    monkeypatch.setattr(readers, "_datasets", lambda: package)
    assert open_source("hf:owner/name").features.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_an_unreadable_image_says_how_to_go_on(tmp_path: Path) -> None:
    write_pictures(tmp_path, [f"cat/{n}.png" for n in range(4)])
    for n in (1, 3):
        (tmp_path / f"cat/{n}.png").write_bytes(b"broken")
    source = open_source(tmp_path)
    with pytest.raises(BadImage, match=r"1\.png .*, and 1 more of this batch; --on-bad-image skip \(in Python"):
        list(evaluation_batches(source, np.arange(4), preprocess=Preprocess(16), batch_size=4, workers=0))
