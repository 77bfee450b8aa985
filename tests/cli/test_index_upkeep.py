"""Items removed from an index, added twice, or without their names and photos."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scdh import Codes, HammingIndex
from scdh.data.name_files import index_names_file, save_named_codes
from scdh.data.row_names import RowNames
from tests.cli.commands import must, run, run_json


def printed(command: str) -> str:
    """Standard output and standard error in one line."""
    return " ".join(" ".join(run(command)[1:]).split())


def failed(command: str) -> str:
    code, _, message = run(command)
    assert code == 2
    return " ".join(message.split())


def codes_file(path: Path, names: list[str], ids: list[int], seed: int = 0) -> Path:
    signs = np.random.default_rng(seed).random((len(names), 16)) < 0.5
    labels = np.arange(len(names)) % 2
    codes = Codes.from_signs(signs, ids=ids)
    save_named_codes(path, codes, RowNames(np.array(ids), names, labels, ["even", "odd"]))
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    codes_file(tmp_path / "a.codes", ["a.jpg", "b.jpg", "c.jpg"], [0, 1, 2])
    codes_file(tmp_path / "b.codes", ["c.jpg", "d.jpg"], [0, 1], seed=1)
    must(f"index {tmp_path}/a.codes --out {tmp_path}/x.index")
    return tmp_path


def names_of(path: Path) -> dict[int, str]:
    index = HammingIndex.load(path)
    names = RowNames.load(path, index.ids, len(index), may_have_more=True)
    assert names is not None
    return dict(zip(names.ids.tolist(), names.names, strict=True))


def test_items_are_removed_by_id_by_name_and_by_file(files):
    assert run_json(f"index --out {files}/x.index --remove 1 --json")["items"] == 2
    assert "1 item removed, 1 left" in must(f"index --out {files}/x.index --remove c.jpg")
    assert names_of(files / "x.index") == {0: "a.jpg"}
    must(f"index {files}/b.codes --out {files}/x.index --append --renumber")
    (files / "gone.txt").write_text("a.jpg\n\nd.jpg\n")
    assert run_json(f"index --out {files}/x.index --remove-from {files}/gone.txt --json")["removed"] == 2
    assert list(names_of(files / "x.index").values()) == ["c.jpg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--remove 7", "does not contain the id 7"),
        ("--remove e.jpg", "Unknown item 'e.jpg'"),
        ("--remove a.jpg --remove 9", "does not contain the id 9"),
        ("--remove-from {files}/nothing.txt", "must be a text file with one item per line"),
        ("--remove 1 --renumber", "--remove needs the index alone"),
    ],
)
def test_nothing_is_removed_if_an_item_is_unknown(files, options, message):
    assert message in failed(f"index --out {files}/x.index {options.format(files=files)}")
    assert len(HammingIndex.load(files / "x.index")) == 3


def test_items_that_are_present_are_an_error_skipped_or_replaced(files):
    """c.jpg is in both files: with another code and another id."""
    append = f"index {files}/b.codes --out {files}/x.index --append"
    assert "--on-duplicate skips or replaces" in failed(append)
    by_name = failed(f"{append} --renumber --on-duplicate error")
    assert "already holds an item called 'c.jpg' (1 of the 2 names" in by_name
    assert len(HammingIndex.load(files / "x.index")) == 3

    before = HammingIndex.load(files / "x.index").codes_of([2]).packed
    skipped = run_json(f"{append} --renumber --on-duplicate skip --json")
    assert (skipped["items"], skipped["already_present"]) == (4, 1)
    assert names_of(files / "x.index") == {0: "a.jpg", 1: "b.jpg", 2: "c.jpg", 3: "d.jpg"}
    assert np.array_equal(HammingIndex.load(files / "x.index").codes_of([2]).packed, before)

    replaced = run_json(f"{append} --renumber --on-duplicate replace --json")
    assert (replaced["items"], replaced["already_present"]) == (4, 2)
    assert names_of(files / "x.index") == {0: "a.jpg", 1: "b.jpg", 2: "c.jpg", 3: "d.jpg"}
    new = Codes.load(files / "b.codes").packed
    assert np.array_equal(HammingIndex.load(files / "x.index").codes_of([2, 3]).packed, new)

    by_id = run_json(f"{append} --on-duplicate replace --json")
    assert (by_id["items"], by_id["already_present"]) == (4, 2)
    assert names_of(files / "x.index") == {0: "c.jpg", 1: "d.jpg", 2: "c.jpg", 3: "d.jpg"}


def test_items_that_are_added_again_under_new_ids_are_reported(files):
    added = printed(f"index {files}/a.codes --out {files}/x.index --append --renumber")
    assert "3 items were in the index already and added again under new ids" in added
    assert len(HammingIndex.load(files / "x.index")) == 6


def test_an_index_without_its_names_and_a_page_without_its_photos_say_so(files, monkeypatch):
    index = files / "x.index"
    monkeypatch.chdir(files)
    Image.new("RGB", (4, 4)).save(files / "a.jpg")
    page = printed(f"search {index} --row 0 --html {files}/hits.html")
    assert "2 of the 3 photos do not exist, such as 'b.jpg'" in page
    index_names_file(index, HammingIndex.load(index).metadata).unlink()
    searched = printed(f"search {index} --row 0")
    assert "The names and labels of" in searched
    plain = Codes.from_bits(np.eye(3, dtype=int))
    plain.save(files / "plain.codes")
    must(f"index {files}/plain.codes --out {files}/plain.index")
    assert "names" not in printed(f"search {files}/plain.index --row 0")


def test_a_search_without_a_query_says_what_a_query_is(files):
    asked = printed(f"search {files}/x.index")
    assert "Give a query: an image with --model RUN, a file with --codes, or an item with --row ID." in asked
    asked = printed(f"search {files}/x.index --row 1 --codes {files}/a.codes")
    assert "Give one query, not --codes and --row: an image" in asked
