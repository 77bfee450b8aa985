"""`scdh index` and `scdh search`, on the codes of digits."""

from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex
from scdh.data.name_files import index_names_file
from scdh.data.row_names import RowNames
from scdh.index.store import IndexWriter
from tests.cli.commands import must, run, run_json


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
    assert queries.ids is not None
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
    assert items is not None
    assert whole is not None
    assert all(items.names[i] == whole.names[row] for i, row in enumerate(index.ids))
    assert all(items.label(i) == whole.label(row) for i, row in enumerate(index.ids))
    both = run_json(f"index {work}/queries.codes {work}/queries.codes --renumber --out {work}/twice.index --json")
    assert both["items"] == 600


def test_an_append_that_was_killed_half_way_is_done_again(work: Path) -> None:
    """The items are written before the index, so a kill in between leaves items that the index does not have."""
    must(f"index {work}/queries.codes --out {work}/killed.index")
    must(f"index {work}/database.codes --out {work}/complete.index")
    must(f"index {work}/queries.codes --append --out {work}/complete.index")
    names_file(work / "killed.index").write_bytes(names_file(work / "complete.index").read_bytes())
    content = run_json(f"search {work}/killed.index --row {Codes.load(work / 'queries.codes').ids[0]} -k 1 --json")
    assert content["items"] == 300
    must(f"index {work}/database.codes --append --out {work}/killed.index")
    assert HammingIndex.load(work / "killed.index").codes == HammingIndex.load(work / "complete.index").codes
    assert names_file(work / "killed.index").read_bytes() == names_file(work / "complete.index").read_bytes()


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
    code, _, err = run(f"index --check {work}/damaged.index")
    assert code == 2
    assert "checksum" in err


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
        code, _, err = run(f"search --index {uri} {options}")
        assert code == 2
        assert words in err
    assert run_json(f"index --to {uri} --remove 5 --remove 6 --json") == {"index": uri, "removed": 2, "items": 1795}


def test_many_labels_and_loose_items(tmp_path: Path) -> None:
    labels = np.zeros((4, 3), np.uint8)
    labels[[0, 1, 1, 3], [0, 1, 2, 2]] = 1
    items = RowNames(np.arange(4), ["a", "b [x]", "c", "d"], labels, ["red", "green", "blue"])
    Codes.from_signs(np.eye(4) - 0.5).save(tmp_path / "c")
    items.save(tmp_path / "c")
    again = RowNames.load(tmp_path / "c", None, 4)
    assert again is not None
    assert np.array_equal(again.labels, labels)
    assert again.label(1) == "green, blue"
    assert again.label(2) == ""
    assert again.names == items.names
    other = again.labels_among(["blue", "red", "green", "black"], multi=True)
    assert other.tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
