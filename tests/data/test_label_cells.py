"""Several labels in one cell of text, in CSV and parquet; usual names of columns; ids of rows."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scdh.data import open_source
from scdh.data.tables.label_cells import parse_label_cells
from scdh.errors import DataError
from tests.data.data_files import image_cells, write_parquet, write_pictures


def parse(cells: list[Any], separator: str = "auto", read_numbers: bool = True) -> list[Any]:
    return parse_label_cells(cells, separator, what="column 'label'", read_numbers=read_numbers)[0]


def tag_cells(rows: int, tags: int, seed: int = 0) -> list[str]:
    """Cells of one to four labels each."""
    rng = np.random.default_rng(seed)
    sets = [rng.choice(tags, size=rng.integers(1, 5), replace=False) for _ in range(rows)]
    return [", ".join(f"tag {tag}" for tag in sorted(labels)) for labels in sets]


def test_commas_separate_labels_that_recur() -> None:
    cells = tag_cells(900, 80)
    assert len(set(cells)) > 600
    with pytest.warns(UserWarning, match="separated by commas: 80 labels instead of .*--label-separator none"):
        labels = parse(cells)
    assert {label for row in labels for label in row} == {f"tag {i}" for i in range(80)}
    assert labels[0] == cells[0].split(", ")


@pytest.mark.parametrize(
    "cells",
    [
        [f"Family {i}, Name {i % 7}" for i in range(300)],  # parts that do not recur
        ["tench, Tinca tinca", "goldfish", "shark, great white"] * 5,
        ["cat", "dog", "", "cat"],
        [f"person {i}" for i in range(20_000)] * 2,
    ],
)
def test_commas_within_names_stay(cells: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse(cells) == cells


@pytest.mark.parametrize(
    ("cells", "sign"),
    [
        (["sea, sky", "", "sky, tree", "sea"], ","),
        ([f"{a}, {b}" for a in "abc" for b in "xyz"], ","),
        ([text.replace("tag ", "").replace(", ", " ") for text in tag_cells(300, 40)], " "),
        ([text.replace(", ", "/") for text in tag_cells(300, 40)], "/"),
    ],
)
def test_where_it_is_not_sure_the_option_is_offered(cells: list[str], sign: str) -> None:
    with pytest.warns(UserWarning, match=f'different values in {len(cells)} rows; .*--label-separator "{sign}"'):
        assert parse(cells) == cells
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse(cells, "none") == cells
        split = parse(cells, sign)
    assert [list(map(str, row)) for row in split] == [[p.strip() for p in c.split(sign) if p.strip()] for c in cells]


def test_separators_and_lists() -> None:
    assert parse(["a; b|c", "", None]) == [["a", "b", "c"], [], []]
    assert parse(["a;b", "c,d"], ",") == [["a;b"], ["c", "d"]]
    assert parse(["a::b", "c"], "::") == [["a", "b"], ["c"]]
    assert parse(["a;b"], "none") == ["a;b"]
    assert parse(["['a b', \"it's\"]", '["c, d"]', "[]", ""]) == [["a b", "it's"], ["c, d"], [], []]
    assert parse(["['a' 'b']", "[c, d e]"]) == [["a", "b"], ["c", "d e"]]  # as numpy prints, and without quotes
    assert parse(["[3, 11]", "[2]"]) == [[3, 11], [2]]
    assert parse(["3,11", "2"], ",") == [[3, 11], [2]]
    assert parse(["10", "9", ""]) == [10, 9, None]
    assert parse(["10", " 9", None], read_numbers=False) == ["10", " 9", ""]


def test_cells_that_do_not_decide_change_nothing_for_the_others() -> None:
    cells = tag_cells(300, 40)
    decides = np.arange(900) < 300

    def parsed(cells: list[str], more: list[str]) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_label_cells(cells + more, "auto", what="tags", read_numbers=True, decides=decides)[0][:300]

    poison = [f"poison {i}" for i in range(600)]
    for column in (cells, [str(i % 12) for i in range(300)], [f"['a', 'b{i % 9}']" for i in range(300)]):
        assert parsed(column, poison) == parsed(column, column + column)


def test_tables_of_both_kinds_split_alike(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["0.png", "1.png", "2.png"])
    paths, cells = ["0.png", "1.png", "2.png"], ["sea, sky", "sky", "sea"]
    (tmp_path / "t.csv").write_text("path,tags\n" + "".join(f'{p},"{c}"\n' for p, c in zip(paths, cells, strict=True)))
    for file in (tmp_path / "t.csv", write_parquet(tmp_path / "t.parquet", {"path": paths, "tags": cells})):
        source = open_source(file, label_separator=",")
        assert source.label_names == ["sea", "sky"]
        assert source.labels.tolist() == [[1, 1], [0, 1], [1, 0]]
        assert open_source(file, label_separator="none").label_names == ["sea", "sea, sky", "sky"]
    numbers = write_parquet(tmp_path / "n.parquet", {"path": paths, "label": [1, 2, 1]})
    with pytest.raises(DataError, match=r"--label-separator .* is for labels in text, but column 'label' of .* int64"):
        open_source(numbers, label_separator=",")
    with pytest.raises(DataError, match="cannot use --label-separator"):
        open_source("digits", label_separator=",")
    several = write_parquet(tmp_path / "s.parquet", {"path": paths, "label": ["a|b", "b", "c;a"]})
    assert open_source(several).labels.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize("image", ["filename", "file_name", "FilePath", "file_path", "Image_Path", "img_path", "Image"])
@pytest.mark.parametrize("label", ["Label", "category", "Tags", "tag", "class_name", "CLASS", "y"])
def test_usual_names_in_any_capitals(tmp_path: Path, image: str, label: str) -> None:
    write_pictures(tmp_path, ["0.png", "1.png"])
    (tmp_path / "t.csv").write_text(f"{label},{image},note\nb,0.png,x\na,1.png,y\n")
    source = open_source(tmp_path / "t.csv")
    assert (source.label_names, source.item_name(1)) == (["a", "b"], str(tmp_path / "1.png"))


def test_ids_name_the_rows(tmp_path: Path) -> None:
    def opened(columns: dict[str, Any], **options: Any) -> Any:
        return open_source(write_parquet(tmp_path / "i.parquet", {"image": image_cells(3), **columns}), **options)

    source = opened({"ID": ["SKU-1", "", None], "label": [0, 1, 0]})
    assert [source.item_name(row) for row in range(3)] == ["SKU-1", "i.parquet row 1", "i.parquet row 2"]
    assert opened({"ID": ["x", "y", "z"], "label": [0, 1, 0]}).fingerprint() == source.fingerprint()
    assert opened({"item_id": [7, 8, 9], "label": [0, 1, 0]}).item_name(2) == "9"
    assert (
        opened({"id": [7, 8, 9], "asin": ["Ä 1", "b", "c"]}, label_column="none", id_column="asin").item_name(0)
        == "Ä 1"
    )
    assert opened({"id": [7, 8, 9], "label": [0, 1, 0]}, id_column="none").item_name(0) == "i.parquet row 0"
    assert opened({"id": [7, 8, 9]}, label_column="id").item_name(0) == "i.parquet row 0"  # ids of classes
    assert opened({"id": [0.5, 1.0, 2.0], "label": [0, 1, 0]}).item_name(0) == "i.parquet row 0"
    with pytest.raises(DataError, match=r"Column 'id' of i.parquet must hold ids .text or whole numbers., not double"):
        opened({"id": [0.5, 1.0, 2.0], "label": [0, 1, 0]}, id_column="id")
    with pytest.raises(DataError, match="no column 'code'"):
        opened({"label": [0, 1, 0]}, id_column="code")


def test_ids_in_npz(tmp_path: Path) -> None:
    x = np.eye(3, dtype=np.float32)
    for ids, name in ((["a", "b", "ü"], "ü"), ([5, 6, 7], "7")):
        np.savez(tmp_path / "v.npz", X=x, ids=np.array(ids))
        assert open_source(tmp_path / "v.npz").item_name(2) == name
    np.savez(tmp_path / "v.npz", X=x, names=np.array(["a", "b"]))
    with pytest.raises(DataError, match=r"v.npz has 3 rows but 2 item names"):
        open_source(tmp_path / "v.npz")
    np.savez(tmp_path / "v.npz", X=x, ids=x)
    with pytest.raises(
        DataError, match=r"v.npz: ids must be a list of texts or whole numbers, not float32 of shape \[3, 3\]"
    ):
        open_source(tmp_path / "v.npz")
