"""Tables with a column of embeddings."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scdh.data import open_source
from scdh.errors import DataError
from tests.data.data_files import image_cells, write_parquet, write_pictures

X = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
LISTS = {
    "list": lambda x: pa.array(x.tolist(), pa.list_(pa.float32())),
    "large list": lambda x: pa.array(x.tolist(), pa.large_list(pa.float64())),
    "fixed-size list": lambda x: pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1]),
    "half precision": lambda x: pa.array(list(x.astype(np.float16)), pa.list_(pa.float16())),
}


def slow_vectors(cells: list[list[float]]) -> list[list[float]]:
    return [[float(np.float32(value)) for value in cell] for cell in cells]


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("kind", LISTS)
def test_every_form_of_a_list_of_floats(tmp_path: Path, kind: str) -> None:
    cells = LISTS[kind](X)
    columns = {"label": ["b", "a", None, "a", "b", "c", "a"], "Embedding": cells, "split": ["train"] * 5 + ["test"] * 2}
    source = open_source(write_parquet(tmp_path / "v.parquet", columns))  # row groups of 3 rows: several chunks
    assert source.kind == "features"
    assert source.features.dtype == np.float32
    assert source.features.tolist() == slow_vectors(cells.to_pylist())
    assert source.labels.tolist() == [1, 0, -1, 0, 1, 2, 0]
    assert source.label_names == ["a", "b", "c"]
    assert source.split.tolist() == ["train"] * 5 + ["test"] * 2
    assert source.item_name(4) == "v.parquet row 4"


def test_one_chunk_of_float32_is_not_copied() -> None:
    from scdh.data.tables.vectors import read_vectors

    array = LISTS["fixed-size list"](X)
    one = read_vectors(pa.chunked_array([array]), "x")
    assert np.shares_memory(one, array.flatten().to_numpy())
    part = read_vectors(pa.chunked_array([array.slice(2, 3)]), "x")  # a part of a larger array
    np.testing.assert_array_equal(part, X[2:5])
    np.testing.assert_array_equal(read_vectors(pa.chunked_array([array.slice(2, 3), array]), "x"), [*X[2:5], *X])


def test_which_column_is_taken(tmp_path: Path) -> None:
    vectors, other = LISTS["list"](X), LISTS["list"](X[:, :3])

    def opened(columns: dict[str, Any], **options: Any) -> Any:
        return open_source(write_parquet(tmp_path / "t.parquet", columns), **options).features.shape[1]

    assert opened({"hidden_state": vectors}) == 5  # the only one
    assert opened({"hidden_state": vectors, "vector": other}) == 3  # the usual name
    assert opened({"features": vectors, "embedding": other}) == 3
    assert opened({"one": vectors, "two": other}, vector_column="ONE") == 5
    assert opened({"image": vectors, "label": [0, 1] * 3 + [0]}) == 5  # a list of pixels is not an image to decode
    assert opened({"counts": pa.array([[1, 2]] * 7)}, vector_column="counts") == 2  # whole numbers, if named
    with pytest.raises(DataError, match=r"several columns of embeddings, one and two; name one with --vector-column"):
        opened({"one": vectors, "two": other})
    with pytest.raises(DataError, match=r"name it with --image-column \(in Python image_column\) or --vector-column"):
        opened({"a": [1]})
    with pytest.raises(DataError, match=r"no column 'three'; its columns are one"):
        opened({"one": vectors}, vector_column="three")
    with pytest.raises(DataError, match=r"give --image-column .* or --vector-column .*, not both"):
        opened({"one": vectors}, vector_column="one", image_column="one")
    with pytest.raises(DataError, match=r"must hold bytes, paths or both, not list<.*named by --vector-column"):
        opened({"one": vectors}, image_column="one")
    with pytest.raises(DataError, match="must hold lists of numbers, one vector per row, not int64"):
        opened({"one": [1, 2]}, vector_column="one")


def test_lists_of_floats_that_are_labels(tmp_path: Path) -> None:
    vectors, flags = LISTS["list"](X), pa.array([[0.0, 1.0, 1.0]] * 7)
    for name in ("labels", "tags", "one_hot"):  # the last is known by its values
        options = {"label_column": "one_hot"} if name == "one_hot" else {}
        source = open_source(write_parquet(tmp_path / "f.parquet", {name: flags, "state": vectors}), **options)
        assert source.features.shape == (7, 5)
        assert source.labels.tolist() == [[0, 1, 1]] * 7
    with pytest.raises(DataError, match="none of which is obviously the image or the embedding"):
        open_source(write_parquet(tmp_path / "g.parquet", {"label": flags}))
    with pytest.raises(DataError, match=r"column 'labels' of h.parquet must be whole numbers or names, but hold"):
        open_source(write_parquet(tmp_path / "h.parquet", {"labels": vectors, "x": vectors}))


def test_images_go_before_embeddings_unless_named_or_missing(tmp_path: Path) -> None:
    vectors = LISTS["list"](X)
    file = write_parquet(tmp_path / "b.parquet", {"image": image_cells(7), "embedding": vectors, "label": [0] * 7})
    with pytest.warns(UserWarning, match="the images are taken, --vector-column embedding .* takes the embeddings"):
        assert open_source(file).kind == "images"
    assert open_source(file, image_column="image").kind == "images"
    assert open_source(file, vector_column="embedding").kind == "features"
    names = [f"{i}.png" for i in range(7)]
    file = write_parquet(tmp_path / "p.parquet", {"filename": names, "embedding": vectors})
    source = open_source(file)  # there are no such files
    assert source.kind == "features"
    assert source.item_name(3) == "3.png"
    write_pictures(tmp_path, names)
    with pytest.warns(UserWarning, match="images are taken"):
        assert open_source(file).kind == "images"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1.0, 2.0], [1.0], [1.0, 2.0]], "vectors of different lengths: 2 numbers in row 0, 1 in row 1"),
        ([[1.0, 2.0], [1.0, 2.0], None], "no vector in row 2; every row needs one"),
        ([[1.0, 2.0], [1.0, 2.0], [2.0, None]], "a number missing in row 2"),
        ([[1.0, 2.0], [1.0, float("nan")], [2.0, 1.0]], "1 of 3 embeddings hold NaN or infinity, the first is row 1"),
        ([[1.0, 2.0], [1.0, 2.0], [1e300, 1.0]], "hold NaN or infinity, the first is row 2"),
        ([[], [], []], "empty lists"),
    ],
)
def test_bad_vectors_name_their_row(tmp_path: Path, cells: list[Any], message: str) -> None:
    file = write_parquet(tmp_path / "bad.parquet", {"embedding": pa.array(cells, pa.list_(pa.float64()))})
    with pytest.raises(DataError, match=message):
        open_source(file)


def test_other_columns_leave_embeddings_without_labels(tmp_path: Path) -> None:
    columns = {"id": list(range(7)), "text": list("abcdefg"), "embedding": LISTS["list"](X)}
    with pytest.warns(UserWarning, match="none of which is obviously the label, so no row has one; --label-column"):
        source = open_source(write_parquet(tmp_path / "t.parquet", columns))
    assert not source.labelled.any()
    assert source.label_names == []
    del columns["text"]
    assert not open_source(write_parquet(tmp_path / "t.parquet", columns)).labelled.any()


def test_many_labels_with_one_class(tmp_path: Path) -> None:
    columns = {"embedding": LISTS["list"](X), "labels": [["a"], [], ["a"], ["a"], [], [], ["a"]]}
    source = open_source(write_parquet(tmp_path / "t.parquet", columns))
    assert source.labels.tolist() == [[1], [0], [1], [1], [0], [0], [1]]


def test_vectors_in_csv(tmp_path: Path) -> None:
    def opened(text: str, **options: Any) -> Any:
        (tmp_path / "v.csv").write_text(text, "utf-8")
        return open_source(tmp_path / "v.csv", **options)

    lines = "sku,embedding,label\n" + "".join(f'S-{i},"{x.tolist()}",{i % 2}\n' for i, x in enumerate(X))
    source = opened(lines)
    np.testing.assert_array_equal(source.features, X)
    assert source.labels.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert source.item_name(6) == "S-6"
    assert opened("v\n[1 2\n", vector_column="v").features.tolist() == [[1, 2]]
    assert opened('v\n" 1.5, 2e-1 "\n(3;4)\n'.replace(";", " "), vector_column="V").features.shape == (2, 2)
    with pytest.raises(DataError, match=r"column 'x' of v.csv holds no list of numbers in row 1: '\[1 ... 9\]'"):
        opened("x\n[1 2 9]\n[1 ... 9]\n")
    with pytest.raises(DataError, match="no vector in row 1"):
        opened('x,y\n"[1, 2]",a\n,b\n', vector_column="x")
    with pytest.raises(DataError, match="name it with --image-column"):
        opened("x,y\n1,2\n3,4\n")  # a single number per row is not a vector


def test_one_number_a_column(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("f0,label,f1,f10\n1,a,2,3\n4,b,5.5,6\n")
    with pytest.raises(DataError, match=r'its own column, --vector-column "f\*" joins them'):
        open_source(tmp_path / "w.csv")
    source = open_source(tmp_path / "w.csv", vector_column="f*")
    assert source.features.tolist() == [[1, 2, 3], [4, 5.5, 6]]
    assert source.label_names == ["a", "b"]
    file = write_parquet(tmp_path / "n.parquet", {"0": [1, 2], "1": [0.5, None], "2": [3, 4], "y": [0, 1]})
    with pytest.raises(DataError, match=r'--vector-column "\[0-9\]\*" joins them'):
        open_source(file)
    with pytest.raises(DataError, match=r"1 of 2 embeddings hold NaN or infinity, the first is row 1"):
        open_source(file, vector_column="[0-9]*")
    (tmp_path / "e.csv").write_text("f0,f1\n1,2\n3,\n")
    with pytest.raises(DataError, match=r"Column 'f1' of e.csv, which 'f\*' names, must hold a number in every row"):
        open_source(tmp_path / "e.csv", vector_column="f*")
    (tmp_path / "wine.csv").write_text("alcohol,ash,kind\n14.2,2.4,a\n13.1,2.1,b\n")
    with pytest.raises(DataError, match=r"its 2 columns of numbers together are the embedding, numpy\.savez"):
        open_source(tmp_path / "wine.csv")
