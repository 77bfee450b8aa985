"""Parquet, CSV and hub tables."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from scdh.data import open_source
from scdh.data.row_names import RowNames
from scdh.data.source import BadImage
from scdh.data.tables import readers as tables_module
from scdh.errors import DataError
from tests.data.data_files import class_label, encoded, image_cells, picture, write_parquet, write_pictures

HF_IMAGE = {"image": {"_type": "Image"}}


def test_parquet_with_class_names(tmp_path: Path) -> None:
    features = HF_IMAGE | {"label": class_label("cat", "dog", "owl")}
    file = write_parquet(
        tmp_path / "a.parquet", {"image": image_cells(7), "label": [0, 2, 2, -1, None, 1, 0]}, features
    )
    source = open_source(str(file))
    assert source.label_names == ["cat", "dog", "owl"]
    assert source.labels.tolist() == [0, 2, 2, -1, -1, 1, 0]
    assert source.labelled.tolist() == [True, True, True, False, False, True, True]
    assert source.item_name(5) == "a.parquet row 5"
    assert source.image(6).size == (20, 16)
    assert source.image(6).mode == "RGB"
    assert source.split is None
    assert not source.multi_label


@pytest.mark.parametrize("kind", ["List", "Sequence", "bare list"])
def test_lists_of_class_labels_are_multi_label(tmp_path: Path, kind: str) -> None:
    inner = class_label("a", "b", "c")
    feature = [inner] if kind == "bare list" else {"feature": inner, "_type": kind}
    columns = {"image": image_cells(4), "labels": pa.array([[0, 2], [], None, [1]], pa.list_(pa.int64()))}
    source = open_source(str(write_parquet(tmp_path / "m.parquet", columns, HF_IMAGE | {"labels": feature})))
    assert source.labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert source.labels.dtype == np.uint8
    assert source.labelled.tolist() == [True, False, False, True]


@pytest.mark.parametrize("wrong", [3, -2])
def test_class_number_out_of_range(tmp_path: Path, wrong: int) -> None:
    features = HF_IMAGE | {"label": class_label("a", "b", "c")}
    file = write_parquet(tmp_path / "w.parquet", {"image": image_cells(3), "label": [0, wrong, 1]}, features)
    with pytest.raises(DataError, match=rf"the label {wrong} in row 1, but only 3 label names"):
        open_source(str(file))


def test_class_number_out_of_range_in_a_list_names_the_row(tmp_path: Path) -> None:
    features = HF_IMAGE | {"labels": {"feature": class_label("a", "b"), "_type": "List"}}
    columns = {"image": image_cells(3), "labels": [[0], [0, 1], [5]]}
    with pytest.raises(DataError, match="the label 5 in row 2"):
        open_source(str(write_parquet(tmp_path / "w.parquet", columns, features)))


def test_plain_columns_words_and_bytes(tmp_path: Path) -> None:
    columns = {"img": [encoded(i) for i in range(3)], "class": ["pear", "apple", None]}
    source = open_source(str(write_parquet(tmp_path / "p.parquet", columns)))
    assert source.label_names == ["apple", "pear"]
    assert source.labels.tolist() == [1, 0, -1]


def test_paths_in_parquet_are_relative_to_the_file(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["pics/a.png", "pics/b.png"])
    columns = {"path": ["pics/a.png", "pics/b.png"], "label": [4, 9]}
    file = write_parquet(tmp_path / "p.parquet", columns)
    source = open_source(str(file))
    assert np.array_equal(np.asarray(source.image(1)), np.asarray(picture(1)))
    assert source.item_name(1) == str(tmp_path / "pics/b.png")
    assert source.label_names == ["4", "9"]
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    file = file.rename(moved / "p.parquet")
    with pytest.raises(DataError, match="none of the first 2 paths exists"):
        open_source(str(file))
    again = open_source(str(file), root=tmp_path)
    assert again.fingerprint() == source.fingerprint()


def test_two_label_columns_keep_equal_words_apart(tmp_path: Path) -> None:
    columns = {"image": image_cells(3), "big": ["Orange", "Pear", "Orange"], "small": ["Orange", "Anjou", ""]}
    file = str(write_parquet(tmp_path / "t.parquet", columns))
    source = open_source(file, label_column="big,small")
    assert source.label_names == ["big=Orange", "big=Pear", "small=Anjou", "small=Orange"]
    assert source.labels.tolist() == [[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 0, 0]]
    with pytest.raises(DataError, match="columns image, big, small, none of which is obviously the label"):
        open_source(file)
    assert not open_source(file, label_column="none").labelled.any()
    with pytest.raises(DataError, match="no column 'huge'"):
        open_source(file, label_column="big,huge")


def test_several_files_and_split_of_names(tmp_path: Path) -> None:
    for name, labels in (("train-0", [0, 1]), ("train-1", [1, 1]), ("validation-0", [0])):
        columns = {"image": image_cells(len(labels)), "label": labels}
        write_parquet(tmp_path / f"{name}.parquet", columns, HF_IMAGE | {"label": class_label("a", "b")})
    source = open_source(str(tmp_path / "*.parquet"))
    assert source.split.tolist() == ["train"] * 4 + ["val"]
    assert source.item_name(4) == "validation-0.parquet row 0"
    assert source.labels.tolist() == [0, 1, 1, 1, 0]
    assert open_source(str(tmp_path)).fingerprint() == source.fingerprint()


def write_labelled(path: Path, count: int, **columns: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    return write_parquet(path, {"image": image_cells(count), "label": [0] * count, **columns})


def test_files_named_by_part_and_others(tmp_path: Path) -> None:
    for name in ("bugs_TRAIN", "bugs_query", "bugs-gallery1", "extra-0"):
        write_labelled(tmp_path / "four" / f"{name}.parquet", 1)
    source = open_source(str(tmp_path / "four"))
    assert source.split.tolist() == ["database", "train", "test", "extra"]
    assert source.split_origin == "names of the 4 files"
    for name in ("index", "photos"):
        write_labelled(tmp_path / "two" / f"{name}.parquet", 1)
    assert open_source(str(tmp_path / "two")).split is None
    for name in ("train", "test"):
        write_labelled(tmp_path / "columns" / f"{name}.parquet", 2, split=["val", "query"])
    source = open_source(str(tmp_path / "columns"))
    assert source.split.tolist() == ["val", "test"] * 2  # a column says more than a file's name


@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        ("Split", ["Train ", "QUERY", None], ["train", "test", ""]),
        ("split", ["train", "odd", ""], ["train", "odd", ""]),
        ("split", [0, 1, 2], ["0", "1", "2"]),
        ("split", pa.array(["train", "test", "test"]).dictionary_encode(), ["train", "test", "test"]),
        ("subset", ["train", "dev", None], ["train", "val", ""]),
        ("subset", ["train", "odd", "dev"], ["train", "odd", "val"]),  # a run asks about odd
        ("Dataset", ["train2017", "val2017", None], ["train2017", "val2017", ""]),
        ("dataset", ["toys", "books", "test"], None),
        ("Partition", ["gallery", "gallery", "query"], ["database", "database", "test"]),
        ("set", [None, None, ""], None),
        ("set", [1, 2, 3], None),
        ("kind", ["train", "Test", ""], ["train", "test", ""]),
        ("kind", ["train", "bus", "test"], None),
        ("kind", ["test", "index", "test"], None),
    ],
)
def test_split_columns(tmp_path: Path, column: str, cells: Any, expected: list[str] | None) -> None:
    source = open_source(str(write_labelled(tmp_path / "t.parquet", 3, **{column: cells})))
    assert (None if source.split is None else source.split.tolist()) == expected
    if expected is not None:
        assert source.split_origin == f"column '{column}' of t.parquet"


def test_columns_that_may_be_a_split(tmp_path: Path) -> None:
    words = ["train", "test", "train"]
    with pytest.raises(DataError, match=r"several columns that may be the split, a and b; .*--set data.split_column"):
        open_source(write_labelled(tmp_path / "two.parquet", 3, a=words, b=words))
    for cells, train, query in (([True, False, False], "False", "True"), ([1, 0, 0], "0", "1")):
        file = write_labelled(tmp_path / "flags.parquet", 3, is_test=cells)
        note = f"--set data.split_column=is_test --set data.train={train} --set data.query={query} follows it"
        assert open_source(file).split_note == f"column 'is_test' is not followed; {note}"
        source = open_source(file, split_column="is_test")
        assert source.split.tolist() == [str(cell) for cell in cells]
    assert open_source(write_labelled(tmp_path / "none.parquet", 3, is_red=[True, False, True])).split_note == ""


def test_a_split_column_of_another_name(tmp_path: Path) -> None:
    file = str(write_labelled(tmp_path / "t.parquet", 3, kind=["train", "test", "x"], more=[["a"]] * 3))
    source = open_source(file, split_column="kind")
    assert source.split.tolist() == ["train", "test", "x"]
    with pytest.raises(DataError, match="no column 'kinds'; its columns are image, label, kind, more"):
        open_source(file, split_column="kinds")
    with pytest.raises(DataError, match="split column 'more' must hold words such as train and test, not list"):
        open_source(file, split_column="more")
    named = class_label("train", "test")
    columns = {"image": image_cells(2), "label": [0, 1], "split": [1, 0]}
    source = open_source(str(write_parquet(tmp_path / "h.parquet", columns, HF_IMAGE | {"split": named})))
    assert source.split.tolist() == ["test", "train"]


def test_files_that_number_classes_differently(tmp_path: Path) -> None:
    for name, classes in (("a", ("x", "y")), ("b", ("y", "x"))):
        columns = {"image": image_cells(2), "label": [0, 1]}
        write_parquet(tmp_path / f"{name}.parquet", columns, HF_IMAGE | {"label": class_label(*classes)})
    with pytest.raises(DataError, match="name the classes of 'label' differently"):
        open_source(str(tmp_path))


def test_lists_of_flags_are_multi_hot(tmp_path: Path) -> None:
    columns = {"image": image_cells(2), "labels": [[0, 1, 1], [0, 0, 0]]}
    source = open_source(str(write_parquet(tmp_path / "h.parquet", columns)))
    assert source.labels.tolist() == [[0, 1, 1], [0, 0, 0]]


def test_rows_without_label_in_every_form(tmp_path: Path) -> None:
    nothing = {"image": image_cells(4)}
    for name, cells, expected in (
        ("words", ["b", "", None, "a"], [1, -1, -1, 0]),
        ("numbers", pa.array([7, None, -1, 3]), [1, -1, -1, 0]),
        ("pandas", pa.array([7.0, None, float("nan"), 3.0]), [1, -1, -1, 0]),
        ("lists", [["b"], [], None, ["a", "b"]], [[0, 1], [0, 0], [0, 0], [1, 1]]),
        ("flags", [[0, 1, 1], [0, 0, 0], None, []], [[0, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]),
    ):
        source = open_source(str(write_parquet(tmp_path / f"{name}.parquet", nothing | {"label": cells})))
        assert source.labels.tolist() == expected, name
        assert source.labelled.tolist() == [True, False, False, name != "flags"]
    two = nothing | {"colour": ["red", None, None, "red"], "shape": ["round", "", None, None]}
    source = open_source(str(write_parquet(tmp_path / "two.parquet", two)), label_column="colour,shape")
    assert source.labelled.tolist() == [True, False, False, True]
    with pytest.raises(DataError, match="not double"):
        open_source(str(write_parquet(tmp_path / "half.parquet", nothing | {"label": [0.5, 1.0, None, 2.0]})))


def test_bad_tables(tmp_path: Path) -> None:
    columns = {"image": image_cells(2), "label": [0.5, 1.0]}
    with pytest.raises(DataError, match=r"column 'label' of f.parquet must hold whole numbers"):
        open_source(str(write_parquet(tmp_path / "f.parquet", columns)))
    with pytest.raises(DataError, match="columns a, none of which is obviously the image"):
        open_source(str(write_parquet(tmp_path / "g.parquet", {"a": [1]})))
    with pytest.raises(DataError, match="must hold bytes, paths or both"):
        open_source(str(write_parquet(tmp_path / "i.parquet", {"image": [1], "label": [1]})))
    with pytest.raises(DataError, match="has no rows"):
        open_source(
            str(write_parquet(tmp_path / "j.parquet", {"image": image_cells(0), "label": pa.array([], "int64")}))
        )
    broken = tmp_path / "k.parquet"
    broken.write_bytes((tmp_path / "f.parquet").read_bytes()[:200])
    with pytest.raises(DataError, match="cannot be read as parquet"):
        open_source(str(broken))


def test_empty_image_cell(tmp_path: Path) -> None:
    cells = pa.array([{"bytes": encoded(0), "path": None}, None], image_cells(0).type)
    source = open_source(str(write_parquet(tmp_path / "e.parquet", {"image": cells, "label": [0, 0]})))
    with pytest.raises(BadImage, match=r"e.parquet row 1 cannot be read: the cell is empty"):
        source.image(1)


def test_large_parquet_goes_through_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    columns = {"image": image_cells(5), "label": [0, 1, 1, 0, 1]}
    file = write_parquet(tmp_path / "a.parquet", columns, HF_IMAGE | {"label": class_label("a", "b")})
    small = open_source(str(file))
    monkeypatch.setattr(tables_module, "LARGE", 0)
    large = open_source(str(file))
    assert large.label_names == small.label_names
    assert large.fingerprint() == small.fingerprint()
    assert np.array_equal(np.asarray(large.image(4)), np.asarray(small.image(4)))


def test_hub_name(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["x", "y"])})
    requests: list[tuple[str, str | None]] = []

    def part(labels: list[int]) -> "datasets.Dataset":
        return datasets.Dataset.from_dict({"img": [picture(i) for i in labels], "label": labels}, features=features)

    def load(name: str, split: str | None = None) -> object:
        requests.append((name, split))
        parts = {"train": part([0, 1, 1]), "validation": part([1])}
        return parts[split] if split else datasets.DatasetDict(parts)

    monkeypatch.setattr(datasets, "load_dataset", load)
    source = open_source("hf:someone/birds")
    assert source.split.tolist() == ["train"] * 3 + ["val"]
    assert source.item_name(3) == "someone/birds validation row 0"
    assert source.label_names == ["x", "y"]
    assert source.image(3).size == (20, 16)
    assert len(open_source("hf:someone/birds:train")) == 3
    assert requests == [("someone/birds", None), ("someone/birds", "train")]
    with pytest.raises(DataError, match="'someone/birds:test' cannot be loaded"):
        open_source("hf:someone/birds:test")


def test_missing_datasets_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'scdh\[hub\]'"):
        open_source("hf:someone/birds")


def write_csv(tmp_path: Path, text: str) -> str:
    write_pictures(tmp_path, [f"{i}.png" for i in range(4)])
    (tmp_path / "list.csv").write_text(text, encoding="utf-8-sig")
    return str(tmp_path / "list.csv")


def test_csv_single_label(tmp_path: Path) -> None:
    source = open_source(write_csv(tmp_path, "path,label,split\n0.png,dog,train\n1.png,,train\n2.png,ant,valid\n"))
    assert source.label_names == ["ant", "dog"]
    assert source.labels.tolist() == [1, -1, 0]
    assert source.split.tolist() == ["train", "train", "val"]
    assert source.item_name(2) == str(tmp_path / "2.png")
    assert np.array_equal(np.asarray(source.image(2)), np.asarray(picture(2)))


@pytest.mark.parametrize("mark", [";", "\t"])
def test_csv_as_spreadsheets_write_it(tmp_path: Path, mark: str) -> None:
    lines = [("filename", "tags", "split"), ("0.png", '"sea; sky"', "train"), ("1.png", "tree, old", "test")]
    source = open_source(write_csv(tmp_path, "".join(mark.join(line) + "\n" for line in lines)))
    assert source.label_names == ["sea", "sky", "tree, old"]
    assert source.split.tolist() == ["train", "test"]


def test_csv_several_labels(tmp_path: Path) -> None:
    source = open_source(write_csv(tmp_path, "path,label\n0.png,sea; sky\n1.png,\n2.png,sky|tree\n3.png,sea\n"))
    assert source.label_names == ["sea", "sky", "tree"]
    assert source.labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]


def test_csv_numbers_sort_by_size_and_leading_zeros_stay(tmp_path: Path) -> None:
    assert open_source(write_csv(tmp_path, "path,label\n0.png,10\n1.png,9\n2.png,-1\n")).label_names == ["9", "10"]
    assert open_source(write_csv(tmp_path, "path,label\n0.png,007\n1.png,7\n")).label_names == ["007", "7"]
    names = "path,label\n0.png,cat\n1.png,-1\n2.png,NaN\n"
    with pytest.warns(UserWarning, match=r"Column 'label' of .* holds 'NaN' \(1 rows\), which is read as no label"):
        assert open_source(write_csv(tmp_path, names)).labels.tolist() == [0, -1, -1]


def test_csv_titles_lose_blanks(tmp_path: Path) -> None:
    source = open_source(write_csv(tmp_path, "path, label, split\n0.png, b,train\n1.png,a, test\n"))
    assert source.label_names == ["a", "b"]
    assert source.split.tolist() == ["train", "test"]
    assert open_source(write_csv(tmp_path, "path,label\n0.png,10;9\n1.png,9\n")).label_names == ["9", "10"]


def test_csv_flag_columns(tmp_path: Path) -> None:
    file = write_csv(tmp_path, "path,sea,sky,fog\n0.png,1,0,0\n1.png,0,0,0\n2.png,1,1,0\n")
    source = open_source(file, label_column="sea,sky,fog")
    assert source.label_names == ["sea", "sky", "fog"]
    assert source.labels.tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 0]]


def test_csv_without_labels_and_broken(tmp_path: Path) -> None:
    for column in ("path", "file"):
        assert not open_source(write_csv(tmp_path, f"{column}\n0.png\n1.png\n")).labelled.any()
    with pytest.raises(DataError, match="cannot be read as CSV"):
        open_source(write_csv(tmp_path, "path,label\n0.png,a,b,c\n"))
    with pytest.raises(DataError, match="names a column twice"):
        open_source(write_csv(tmp_path, "path,label,label\n0.png,a,b\n"))
    with pytest.raises(DataError, match="cannot be read as CSV"):
        open_source(write_csv(tmp_path, ""))


def test_labels_follow_names_not_numbers(tmp_path: Path) -> None:
    source = open_source(write_csv(tmp_path, "path,label\n0.png,dog\n1.png,\n2.png,ant\n"))
    rows = RowNames.from_source(source, np.arange(3))
    assert rows.labels_among(["dog", "bee", "ant"], multi=False).tolist() == [0, -1, 2]
    assert rows.labels_among(["dog", "ant"], multi=True).tolist() == [[1, 0], [0, 0], [0, 1]]
    with pytest.raises(DataError, match="'ant' is not among the 2 label names"):
        rows.labels_among(["dog", "bee"], multi=False)
    many = open_source(write_csv(tmp_path, "path,label\n0.png,dog;ant\n1.png,\n2.png,ant\n"))
    rows = RowNames.from_source(many, np.arange(3))
    assert rows.labels_among(["x", "ant", "dog"], multi=True).tolist() == [[0, 1, 1], [0, 0, 0], [0, 1, 0]]
