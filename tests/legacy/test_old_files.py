"""Files that an earlier version wrote still open, and give what they gave then; README.md says how they were made."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from scdh import Codes, HammingIndex, Hasher
from scdh.data import RowNames
from tests.cli.commands import must, run, run_json

FILES = Path(__file__).parent / "files"
EXPECTED = json.loads((FILES / "expected.json").read_text("utf-8"))
INTERRUPTED = sorted(folder.name for folder in (FILES / "interrupted").iterdir())
CELLS = ("scdh-12-0", "itq-12-0", "lsh-12-0")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that is the working folder, as their settings name the data by a relative path."""
    torch.set_num_threads(1)
    folder = shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(folder)
    return folder


def share_of_equal_bits(model: Path, method: str) -> float:
    expected = np.array([[int(bit) for bit in row] for row in EXPECTED["models"][method]])
    vectors = np.load(FILES / "digits.npz")["X"]
    step = len(vectors) // len(expected)
    bits = Hasher.load(model).encode(vectors[::step][: len(expected)]).unpack()
    assert bits.shape == expected.shape
    return float((bits == expected).mean())


@pytest.mark.parametrize("method", sorted(EXPECTED["models"]))
def test_models_give_the_same_codes(method: str) -> None:
    # Processors differ in the last digit of an output, so one that is almost 0 may change its sign.
    assert share_of_equal_bits(FILES / "models" / method, method) >= 0.999


@pytest.mark.parametrize("codes", ["stored", "encoded anew"])
@pytest.mark.parametrize("name", sorted(EXPECTED["scores"]))
def test_runs_have_the_same_scores(name: str, codes: str, files: Path) -> None:
    if codes == "encoded anew":
        shutil.rmtree(files / "runs" / name / "codes", ignore_errors=True)
    scores = run_json(f"evaluate runs/{name} --json")
    expected = dict(EXPECTED["scores"][name])
    if "student_map" in expected:
        assert scores["student"]["map"] == pytest.approx(expected.pop("student_map"), abs=1e-6)
    for key, value in expected.items():
        assert scores[key] == pytest.approx(value, abs=1e-6), key


@pytest.mark.parametrize("method", INTERRUPTED)
def test_interrupted_runs_are_resumed(method: str, files: Path) -> None:
    folder = files / "interrupted" / method
    must(f"train --resume --out {folder}")
    with (folder / "log.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    # Without the optimiser's state, the schedule or the random state the third epoch would be another one.
    assert [float(row["loss"]) for row in rows] == pytest.approx(EXPECTED["losses"][method], rel=1e-4)
    assert share_of_equal_bits(folder / "model", method) >= 0.99
    assert (folder / "student").exists() == (method == "mt_scdh")


def test_an_interrupted_run_is_refused_other_settings(files: Path) -> None:
    code, _, err = run("train --resume --out interrupted/scdh --bits 13")
    assert code == 2
    assert "method.bits (12, not 13)" in err


@pytest.mark.parametrize("name", sorted(EXPECTED["index"]))
def test_indexes_have_the_same_hits(name: str, files: Path) -> None:
    expected, queries = EXPECTED["index"][name], Codes.load("index/query.codes")
    index = HammingIndex.load(f"index/{name}.index", verify=True)
    assert len(index) == expected["items"]
    hits = expected["hits"]
    first = Codes(queries.packed[: len(hits["ids"])], queries.bits)
    nearest, ball = index.search(first, k=len(hits["ids"][0])), index.within(first, radius=2)
    assert nearest.ids.tolist() == hits["ids"]
    assert nearest.distances.tolist() == hits["distances"]
    assert ball.counts.tolist() == hits["within_counts"]
    assert ball.ids.tolist() == hits["within_ids"]
    by_codes = run_json(f"search index/{name}.index --codes index/query.codes -k 3 --json")
    assert by_codes["queries"][: len(expected["search"])] == expected["search"]
    by_row = run_json(f"search index/{name}.index --row {queries.ids[0]} -k 5 --json")
    assert by_row["queries"] == expected["search_by_row"]


def test_an_index_takes_more_codes(files: Path) -> None:
    before = HammingIndex.load("index/changed.index")
    about = run_json("index index/query.codes --append --renumber --out index/changed.index --json")
    index = HammingIndex.load("index/changed.index", verify=True)
    assert about["items"] == len(index) == len(before) + len(Codes.load("index/query.codes"))
    hits = run_json(f"search index/changed.index --row {index.ids.max()} -k 1 --json")["queries"][0]["hits"]
    assert hits[0]["distance"] == 0
    assert hits[0]["name"]


def test_codes_are_indexed_and_are_those_of_the_model(files: Path) -> None:
    must("index index/all.codes --out index/again.index")
    assert HammingIndex.load("index/again.index").codes == HammingIndex.load("index/all.index").codes
    must("encode models/scdh digits.npz --out index/again.codes")
    old, new = Codes.load("index/all.codes"), Codes.load("index/again.codes")
    # The model's fingerprint is the same: other commands refuse to mix codes of two models. l_q is no longer written.
    assert old.metadata == {**new.metadata, "l_q": old.metadata["l_q"]}
    assert (old.unpack() == new.unpack()).mean() >= 0.999
    names, same = RowNames.load("index/all.codes"), RowNames.load("index/again.codes")
    assert (list(names.names), names.label_names) == (list(same.names), same.label_names)
    assert np.array_equal(names.labels, same.labels)
    assert not Path("index/again.codes.items.json").exists()


def compare_command(*methods: str) -> list[str]:
    # Then the default was no validation; now rows are held out for it where nothing is said.
    as_then = ["--set", "data.validation_per_class=0"]
    return ["compare", *methods, *EXPECTED["compare_options"], *as_then, "--out", "compared"]


@pytest.mark.slow
def test_a_comparison_goes_on(files: Path) -> None:
    cells = {name: files / "compared" / "cells" / name for name in CELLS}
    old = {path: path.read_bytes() for cell in cells.values() for path in cell.rglob("*") if path.is_file()}
    maps = {name: json.loads((cell / "scores.json").read_text())["map"] for name, cell in cells.items()}
    must(compare_command("scdh", "itq", "lsh", "dsh"))
    assert {path: path.read_bytes() for path in old} == old
    results = json.loads((files / "compared" / "compare.json").read_text())
    assert results["methods"] == ["scdh", "itq", "lsh", "dsh"]
    assert results["missing"] == []
    new_maps = {entry["cell"]: entry["map"] for entry in results["cells"]}
    assert {name: new_maps[name] for name in CELLS} == maps
    assert 0 < new_maps["dsh-12-0"] <= 1
    assert (files / "compared" / "compare.html").exists()


@pytest.mark.parametrize("cell", CELLS)
def test_cells_of_a_comparison_are_evaluated(cell: str, files: Path) -> None:
    old = json.loads((files / "compared" / "cells" / cell / "scores.json").read_text())
    scores = run_json(f"evaluate compared/cells/{cell} --json")
    for key in ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_k"):
        assert scores[key] == pytest.approx(old[key], abs=1e-6), key
    old["definition"]["words"] = scores["definition"]["words"]  # a text for readers, which may be made clearer
    assert scores["definition"] == old["definition"]
    at_100 = run_json(f"evaluate compared/cells/{cell} --topk 100 --json")
    assert at_100["definition"]["topk"] == 100
