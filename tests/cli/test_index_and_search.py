"""`scdh index` and `scdh search`: items added, removed and added twice; codes, names and labels belong together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from scdh import Codes, HammingIndex
from scdh.data.name_files import index_names_file, save_named_codes
from scdh.data.row_names import RowNames
from scdh.index.store import IndexWriter
from tests.cli.commands import fails, must, run, run_json


def names_file(index: Path) -> Path:
    return index_names_file(index, HammingIndex.load(index).metadata)


def test_search_by_row_by_codes_and_by_model(work: Path) -> None:
    by_row = run_json(f"search {work}/digits.index --row 7 -k 3 --json")["queries"]
    assert by_row[0]["query"] == "digits row 7"
    assert [hit["rank"] for hit in by_row[0]["hits"]] == [1, 2, 3]
    assert all(hit["id"] != 7 for hit in by_row[0]["hits"])
    assert {"name", "label"} <= by_row[0]["hits"][0].keys()

    index, queries = HammingIndex.load(work / "digits.index"), Codes.load(work / "queries.codes")
    expected = index.search(queries, k=4)
    by_codes = run_json(f"search {work}/digits.index --codes {work}/queries.codes -k 4 --json")["queries"]
    for own, query, ids in zip(queries.ids.tolist(), by_codes, expected.ids.tolist(), strict=True):
        # The query's own item comes first, also if items with smaller ids have the same code.
        assert [hit["id"] for hit in query["hits"]] == [own, *(other for other in ids if other != own)][:4]

    by_model = run_json(f"search {work}/digits.index --model {work}/runs/digits digits --radius 1 --json")["queries"]
    ball = index.within(Codes.load(work / "digits.codes"), radius=1)
    assert [len(query["hits"]) for query in by_model] == ball.counts.tolist()

    table = must(f"search {work}/digits.index --row 7")
    assert "distance" in table
    assert "digits row" in table
    assert "label" in table


def test_index_carries_names_over_several_files(work: Path) -> None:
    must(f"index {work}/queries.codes --out {work}/grown.index")
    about = run_json(f"index {work}/database.codes --out {work}/grown.index --append --json")
    index = HammingIndex.load(work / "grown.index")
    assert about["items"] == len(index) == 1797
    assert about["bytes"] == (work / "grown.index").stat().st_size
    items = RowNames.load(work / "grown.index", index.ids, len(index))
    whole = RowNames.load(work / "digits.codes", np.arange(1797), 1797)
    assert all(items.names[i] == whole.names[row] for i, row in enumerate(index.ids))
    assert all(items.label(i) == whole.label(row) for i, row in enumerate(index.ids))
    both = run_json(f"index {work}/queries.codes {work}/queries.codes --renumber --out {work}/twice.index --json")
    assert both["items"] == 600


def test_an_index_never_gets_the_names_of_another(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target_file = work / "names.index"
    must(f"index {work}/queries.codes --out {target_file}")
    named = names_file(target_file).read_bytes()
    with IndexWriter(target_file):
        code, _, err = run(f"index {work}/digits.codes --out {target_file} --replace")
    assert code == 2
    assert "names.index" in err
    assert names_file(target_file).read_bytes() == named
    assert len([file for file in work.iterdir() if "names.index" in file.name]) == 2
    Codes.from_signs(np.ones((3, 32)), ids=np.arange(3)).save(work / "nameless.codes")
    must(f"index {work}/nameless.codes --out {target_file} --replace")
    assert "name" not in run_json(f"search {target_file} --row 0 --json")["queries"][0]["hits"][0]
    assert [file.name for file in work.iterdir() if "names.index" in file.name] == ["names.index"]


def test_codes_and_indexes_are_not_replaced_in_silence(work: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "kept file.index", tmp_path / "notes.txt"
    must(["index", f"{work}/database.codes", "--out", str(out)])
    other.write_text("hours of work")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    index_command = ["index", f"{work}/queries.codes", "--out"]
    encode_command = ["encode", f"{work}/runs/digits", "digits", "--part", "query", "--out"]
    held = "holds an index of 1,497 codes of 32 bits; --replace replaces it"
    for arguments, words in {
        (*index_command, str(out)): f"{out} exists already and {held}, and --append adds to it.",
        (*encode_command, str(out)): f"{out} exists already and {held}.",
        (*index_command, f"{work}/digits.codes"): "holds 1,797 codes of 32 bits; --replace replaces it.",
        (*encode_command, f"{work}/digits.codes"): "holds 1,797 codes of 32 bits; --replace replaces it.",
        (*index_command, str(other)): "holds neither codes nor an index; --replace replaces it.",
        (*encode_command, str(other)): "holds neither codes nor an index; --replace replaces it.",
        (*index_command, str(out), "--append", "--replace"): "Either --append or --replace, not both",
        ("index", f"{work}/queries.codes", "--to", "milvus:x.db/x", "--replace"): "leave --replace out",
        (*index_command, "milvus://host/x"): "--out is a file; codes go into a search engine with --to.",
    }.items():
        code, printed, err = run(arguments)
        assert (code, printed) == (2, "")
        assert words in err
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    must([*index_command, str(out), "--replace"])
    assert len(HammingIndex.load(out)) == 300
    must([*encode_command, str(other), "--replace"])
    assert len(Codes.load(other)) == 300


def test_an_index_can_be_checked_and_searched_by_label(work: Path) -> None:
    assert run_json(f"index --check {work}/digits.index --json")["sound"]
    hits = run_json(f"search --index {work}/digits.index --row 7 --label 3 --label 4 -k 5 --json")["queries"][0]["hits"]
    assert len(hits) == 5
    assert {hit["label"] for hit in hits} <= {"3", "4"}
    damaged = bytearray((work / "digits.index").read_bytes())
    damaged[9000] ^= 1
    (work / "damaged.index").write_bytes(damaged)
    assert "checksum" in fails(f"index --check {work}/damaged.index")


@pytest.mark.parametrize("address", ["lance:{}/engine/digits", "milvus:{}/engine.db/digits"])
@pytest.mark.slow
def test_codes_names_and_labels_go_to_an_engine_and_can_be_searched(work: Path, address: str) -> None:
    pytest.importorskip("lancedb" if address.startswith("lance") else "pymilvus")
    uri = address.format(work)
    assert run_json(f"index {work}/digits.codes --to {uri} --json")["sent"] == 1797
    again = run_json(f"index {work}/digits.codes --to {uri} --json")
    assert (again["sent"], again["items"]) == (0, 1797)
    for options in (
        f"--codes {work}/queries.codes -k 4",
        "--row 7 --radius 2 --label 7",
        "--row 7 -k 5 --label 3 --label 4",
        f"--row 7 -k 3 --names {work}/digits.codes",
    ):
        in_engine = run_json(f"search --index {uri} {options} --json")
        assert in_engine["queries"] == run_json(f"search {work}/digits.index {options} --json")["queries"]
    for options, words in {
        "--row nope": "neither the id nor the name 'nope'",
        "--row 7 --label x": "label 'x'",
    }.items():
        assert words in fails(f"search --index {uri} {options}")
    assert run_json(f"index --to {uri} --remove 5 --remove 6 --json") == {"index": uri, "removed": 2, "items": 1795}


def printed(command: str) -> str:
    """Standard output and standard error in one line."""
    return " ".join(" ".join(run(command)[1:]).split())


def failed(command: str) -> str:
    message = fails(command)
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


ROWS = 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Codes of two data sets of the same size, whose names and labels differ."""
    torch.set_num_threads(1)  # threads of torch do not survive a fork
    d = tmp_path_factory.mktemp("made")
    x = np.random.default_rng(0).normal(size=(ROWS, 8)).astype(np.float32)
    for name, order in (("a", np.arange(ROWS)), ("b", np.roll(np.arange(ROWS), 7))):
        labels = (x[order, 0] > 0).astype(np.int64)
        np.savez(d / f"{name}.npz", X=x[order], y=labels, ids=np.array([f"{name}{i}" for i in order]))
    must(f"train --data {d}/a.npz --method lsh --bits 16 --out {d}/run")
    for name in ("a", "b"):
        must(f"encode {d}/run {d}/{name}.npz --out {d}/{name}.codes")
    return d


def of_index(path: Path) -> Any:
    """All that can be seen of an index."""
    index = HammingIndex.load(path)
    shown = run_json(f"search {path} --row 0 -k {len(index)} --json")["queries"]
    return len(index), index.codes.packed.tolist(), shown


def names_in(folder: Path, start: str) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.name.startswith(start))


def test_codes_that_are_saved_without_names_have_none(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.codes"
    must(f"encode {made}/run {made}/a.npz --out {target}")
    assert (
        run_json(f"search --index {write_index(made, tmp_path)} --codes {target} -k 1 --json")["queries"][3]["query"]
        == "a3"
    )
    Codes.load(target).save(target)
    assert "it holds codes only" in run(f"evaluate --queries {target} --database {target}")[2]


def write_index(made: Path, folder: Path) -> Path:
    must(f"index {made}/a.codes --out {folder}/a.index --replace")
    return folder / "a.index"


def test_a_search_needs_no_list_of_all_ids(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """96 million ids would take 768 MB; the index itself is read from disk."""
    named, nameless = write_index(made, tmp_path), tmp_path / "nameless.index"
    Codes.load(made / "a.codes").save(tmp_path / "nameless.codes")
    must(f"index {tmp_path}/nameless.codes --out {nameless}")
    expected = [of_index(path) for path in (named, nameless)]

    def reject(_: object) -> None:
        raise AssertionError("all ids were asked for")

    monkeypatch.setattr(HammingIndex, "ids", property(reject))
    for path, (_, _, shown) in zip((named, nameless), expected, strict=True):
        assert run_json(f"search {path} --row 0 -k {ROWS} --json")["queries"] == shown
        must(f"search {path} --codes {made}/b.codes -k 3")
        must(f"search {path} --row 0 --radius 2")
    must(f"search {named} --row a3")
    must(f"search {named} --row 0 --label 1")


def test_two_programs_that_write_one_index(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one removes names that are not its own while this one has not written its index yet."""
    target, save = tmp_path / "x.index", HammingIndex.save
    must(f"index {made}/a.codes --out {target}")

    def save_late(index: HammingIndex, path: Path) -> None:
        monkeypatch.undo()
        must(f"index {made}/a.codes --out {target} --replace")
        save(index, path)

    monkeypatch.setattr(HammingIndex, "save", save_late)
    must(f"index {made}/b.codes --out {target} --replace")
    assert run_json(f"search {target} --row 0 -k 1 --json")["queries"][0]["query"] == "b33"
    assert len(names_in(tmp_path, "x.index")) == 2


def test_rows_that_a_program_adds_have_no_name(made: Path, tmp_path: Path) -> None:
    index = write_index(made, tmp_path)
    with IndexWriter(index) as writer:
        writer.add(Codes.load(made / "b.codes")[:2], ids=[90, 91])
    hits = run_json(f"search {index} --row 90 -k 50 --json")["queries"][0]["hits"]
    assert {hit["name"] for hit in hits if hit["id"] == 91} == {""}
    assert all(hit["name"] for hit in hits if hit["id"] < ROWS)
