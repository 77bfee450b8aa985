"""Odd and damaged tables and arrays: each is read rightly or rejected in one sentence, never by another error."""

import io
import json
import sys
import zipfile
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scdh.data.open import open_source
from scdh.data.source import Source
from scdh.errors import DataError
from tests.data.data_files import encoded, write_parquet, write_pictures

IMAGES = [encoded(i, kind="PNG") for i in range(4)]
X = np.arange(12, dtype=np.float32).reshape(4, 3)
NOT_UTF8 = pa.array([b"\xff\xfe"] * 4).view(pa.string())
COLUMNS: dict[str, Any] = {
    "too large for 64 bits with a sign": pa.array([2**64 - 1, 1, 2, 3], pa.uint64()),
    "text that is not UTF-8": NOT_UTF8,
    "lists of lists": pa.array([[["a"]]] * 4),
    "lists of structs": pa.array([[{"a": 1}]] * 4),
    "lists of bytes": pa.array([[b"a"], [b"\xff"], [], None]),
    "lists of numbers too large": pa.array([[2**64 - 1], [1], [2], [3]], pa.list_(pa.uint64())),
    "lists of nothing": pa.array([[None], [], None, [None]]),
    "structs": pa.array([{"a": 1}] * 4),
    "maps": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "decimals": pa.array([Decimal("1.5")] * 4),
    "timestamps": pa.array([0] * 4, pa.timestamp("s")),
    "bytes": pa.array([b"a", b"\xff", None, b"b"]),
    "a dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "a dictionary of truth values": pa.array([True, False, None, True]).dictionary_encode(),
    "nulls": pa.nulls(4),
    "infinity": pa.array([np.inf, 1.0, 2.0, 3.0]),
}
CLASSES = ({"names": 5}, {"names": {"a": 1}}, {"names": ["a", "b"]}, {"names": []})


def use(path: Path, **options: Any) -> Source | None:
    """The source with everything of it read once, or None where it was rejected."""
    rejected = ""
    try:
        source = open_source(path, **options)
    except DataError as error:
        rejected = str(error)
    if rejected:
        assert rejected.endswith((".", "?"))
        assert "\n" not in rejected
        return None
    source.content_fingerprint()
    _ = [source.item_name(row) for row in range(len(source))]
    return source


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("role", ["label", "id", "split", "image", "embedding"])
def test_odd_columns(tmp_path: Path, column: str, role: str) -> None:
    table = {"image": IMAGES, "label": ["a", "b", "a", "b"]} | {role: COLUMNS[column]}
    path = write_parquet(tmp_path / "t.parquet", table)
    use(path)
    use(path, **{{"embedding": "vector"}.get(role, role) + "_column": role})
    for names in CLASSES:
        use(write_parquet(path, table, {role: {"_type": "ClassLabel", **names}, "gone": {"_type": "Image"}}))


def test_labels_of_64_bits_without_a_sign(tmp_path: Path) -> None:
    table = {"embedding": X.tolist(), "label": pa.array([2**64 - 1, 1, 2, 1], pa.uint64())}
    assert open_source(write_parquet(tmp_path / "t.parquet", table)).label_names == ["1", "2", str(2**64 - 1)]


@pytest.mark.parametrize("digits", [20, 5000])
def test_labels_of_many_digits(tmp_path: Path, digits: int) -> None:
    write_pictures(tmp_path, ["a.png", "b.png"])
    (tmp_path / "t.csv").write_text(f"image,label\na.png,{'9' * digits}\nb.png,{'8' * digits}\n")
    assert open_source(tmp_path / "t.csv").label_names == ["8" * digits, "9" * digits]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\n", b"\xef\xbb\xbf", b"image,label", b"image,label\n", b",\na,b\n", b",,,\n,,,\n"),
        *(b"image,label,label\na.png,x,y\n", b"image,label\na.png\n", b"image,label\na.png,x\nb.png,x,y\n"),
        *(b"image,label\na.png,x\0y\n\0\n", b"im\0age,label\na.png,x\n", b"image,label\na.png,x", b"PK\3\4aaaa"),
        *("image,label\na.png,x\n".encode("utf-16"), b"image,label\na.png,caf\xe9\n", b"image,caf\xe9\na.png,x\n"),
        *(
            b'image,label\n"a.png,x\n',
            b'"image,label\na.png,x\n',
            b"image,label\ra.png,x\r",
            b"\n\nimage,label\na.png,x",
        ),
        *(b'embedding,label\n"[1_0,1]",a\n"[2,1]",b\n', "embedding,label\n[٣],a\n[2],b\n".encode()),
        *(b"embedding,label\n[0x10],a\n", b"embedding,label\n[],a\n", b"embedding,label\n[1e999],a\n[nan],b\n"),
        b'"' + b"i" * 200_000 + b'",label\na.png,x\n',
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_odd_csv_files(tmp_path: Path, content: bytes) -> None:
    write_pictures(tmp_path, ["a.png"])
    (tmp_path / "t.csv").write_bytes(content)
    for options in ({}, {"label_column": "label"}, {"vector_column": "embedding"}, {"image_column": ""}):
        use(tmp_path / "t.csv", **options)


def test_odd_parquet_files(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pa.feather.write_feather(pa.table({"image": IMAGES}), path)
    assert use(path) is None
    pq.ParquetWriter(path, pa.schema([("image", pa.binary()), ("label", pa.string())])).close()
    assert use(path) is None
    write_parquet(path, {"image": pa.array([{"bytes": None, "path": b"a.png"}] * 2), "label": ["a", "b"]})
    with pytest.raises(DataError, match="the image column 'image' has binary where text belongs"):
        open_source(path)
    write_parquet(path, {"image": pa.array([{"bytes": 3, "path": "a.png"}] * 2), "label": ["a", "b"]})
    with pytest.raises(DataError, match="has int64 where bytes belongs"):
        open_source(path)
    for text in (b"[" * 100_000, b"\xff", b"null", b'{"info": 1}'):
        pq.write_table(
            pa.table({"image": IMAGES, "label": list("abab")}).replace_schema_metadata({"huggingface": text}), path
        )
        assert use(path) is not None


def test_odd_arrays(tmp_path: Path) -> None:
    for array in (np.asfortranarray(X), X.astype(">f4"), X.astype(np.float16), X.astype(np.longdouble)):
        np.save(tmp_path / "e.npy", array)
        np.testing.assert_array_equal(open_source(tmp_path / "e.npy").features, X)
    for array in (np.zeros(4, [("a", "f4")]), np.float32(3), X[:, :0], X + 1j, np.zeros(4, "V4"), X[None]):
        np.save(tmp_path / "e.npy", array)
        assert use(tmp_path / "e.npy") is None
        np.savez(tmp_path / "e.npz", X=array)
        assert use(tmp_path / "e.npz") is None
    odd = (np.array([b"\xff"] * 4), np.eye(4), np.zeros((4, 0)), np.array(["\udcff"] * 4), np.zeros((4, 2, 2)))
    for key in ("y", "label_names", "split", "ids"):
        for values in odd:
            np.savez(tmp_path / "e.npz", **{"X": X, "y": [0, 1, 0, 1], key: values})
            use(tmp_path / "e.npz")
    np.savez(tmp_path / "e.npz", X=X, y=np.array([b"caf\xe9", b"a", b"a", b""]))
    assert open_source(tmp_path / "e.npz").label_names == ["a", "caf\udce9"]
    np.save(tmp_path / "e.npy", X)
    (tmp_path / "e.npy").rename(tmp_path / "e.npz")
    with pytest.raises(DataError, match=r"holds one array, as .npy files do"):
        open_source(tmp_path / "e.npz")
    with zipfile.ZipFile(tmp_path / "e.npz", "w") as archive:
        archive.writestr("X.npy", b"junk")
    assert use(tmp_path / "e.npz") is None


def _whole(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "npy":
        np.save(out, X)
    elif kind == "npz":
        np.savez_compressed(out, X=X, y=[0, 1, 0, 1], label_names=["a", "b"], split=["train"] * 4, ids=list("abcd"))
    elif kind == "csv":
        out.write(b'embedding,label,id\n"[1, 2]",a,1\n"[3, 4]",b,2\n')
    else:
        table = pa.table({"embedding": X.tolist(), "label": list("abab"), "id": list("wxyz")})
        pq.write_table(table, out, compression="none", use_dictionary=False)
    return out.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_files(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    content = bytearray(_whole(kind))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)):
        content[at] = byte
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    (tmp_path / f"t.{kind}").write_bytes(content)
    use(tmp_path / f"t.{kind}")


def test_the_hub_runs_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package version that can run a data set's program must not; with one that always does, it is rejected."""
    asked: list[dict[str, Any]] = []

    def load_dataset(name: str, **options: Any) -> None:
        asked.append(options)
        raise RuntimeError("no network")

    for version in ("2.20.0", "3.6.0.dev1", "4.0.0", "5.2.0"):
        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(__version__=version, load_dataset=load_dataset))
        with pytest.raises(DataError, match="no network"):
            open_source("hf:owner/name")
    assert [options.get("trust_remote_code") for options in asked] == [False, False, None, None]
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(__version__="2.19.2", load_dataset=load_dataset))
    with pytest.raises(DataError, match=r"datasets 2.19.2 runs programs .*; 2.20 or later is needed"):
        open_source("hf:owner/name")
    assert len(asked) == 4
    assert json.dumps(asked).count("true") == 0
