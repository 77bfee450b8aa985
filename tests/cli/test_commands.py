"""The command line from end to end on digits."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from scdh import Codes, HammingIndex, __version__
from scdh.cli.app import COMMANDS
from scdh.config import load_config
from scdh.data.row_names import RowNames
from scdh.index.store import IndexWriter
from tests.command_line import run_scdh, scdh_output
from tests.data.data_files import write_pictures

NAMES = [command.__name__ for command, _ in COMMANDS]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the examples of the help texts have been followed once."""
    torch.set_num_threads(1)
    d = tmp_path_factory.mktemp("work")
    scdh_output(f"train --preset demo-digits --epochs 10 --out {d}/runs/digits")
    scdh_output(f"encode {d}/runs/digits digits --out {d}/digits.codes")
    scdh_output(f"encode {d}/runs/digits digits --part query --out {d}/queries.codes")
    scdh_output(f"encode {d}/runs/digits digits --part database --out {d}/database.codes")
    scdh_output(f"index {d}/digits.codes --out {d}/digits.index")
    return d


def read(command: str) -> dict:
    """The one JSON document that a command prints."""
    return json.loads(scdh_output(command))


def test_evaluate_scores_a_run(work: Path) -> None:
    content = read(f"evaluate {work}/runs/digits --json")
    assert content["map"] > 0.8
    assert content["map_worst"] <= content["map"] <= content["map_best"]
    assert content["definition"]["queries"] == 300
    assert content["definition"]["database"] == 1497
    assert content == json.loads((work / "runs/digits/scores.json").read_text())
    assert {"config", "versions", "seconds", "protocol", "l_q", "model"} <= content.keys()
    with np.load(work / "runs/digits/per_query.npz", allow_pickle=False) as kept:
        assert kept["ap"].mean() == pytest.approx(content["map"])
        assert len(kept["rows"]) == 300


def test_codes_of_an_evaluation_are_kept(work: Path) -> None:
    first = read(f"evaluate {work}/runs/digits --json")
    file = work / "runs/digits/codes/database.codes"
    written = file.stat().st_mtime_ns
    again = read(f"evaluate {work}/runs/digits --radius 3 --json")
    assert file.stat().st_mtime_ns == written
    assert again["map"] == first["map"]
    assert again["l_q"] == first["l_q"]
    file.write_bytes(file.read_bytes()[:-5])
    assert read(f"evaluate {work}/runs/digits --json")["map"] == first["map"]


def test_evaluating_files_gives_the_run_s_scores(work: Path) -> None:
    run_scores = read(f"evaluate {work}/runs/digits --json")
    files = read(f"evaluate --queries {work}/queries.codes --database {work}/database.codes --json")
    for name in ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_k", "definition", "l_q"):
        assert files[name] == run_scores[name]
    table = scdh_output(f"evaluate --queries {work}/queries.codes --database {work}/database.codes --topk 100")
    assert "MAP@100, ties expected" in table
    assert "precision within radius 2" in table
    assert "300 queries" in table


def test_validation_rows_are_scored_among_themselves(work: Path) -> None:
    scdh_output(f"train --preset demo-digits --epochs 2 --set data.validation_per_class=10 --out {work}/held")
    content = read(f"evaluate {work}/held --part validation --json")
    assert content["definition"]["leave_one_out"]
    assert content["definition"]["queries"] == 100
    assert (work / "held/scores_validation.json").exists()
    assert not (work / "held/scores.json").exists()


def test_search_by_row_by_codes_and_by_model(work: Path) -> None:
    by_row = read(f"search {work}/digits.index --row 7 -k 3 --json")["queries"]
    assert by_row[0]["query"] == "digits row 7"
    assert [hit["rank"] for hit in by_row[0]["hits"]] == [1, 2, 3]
    assert all(hit["id"] != 7 for hit in by_row[0]["hits"])
    assert {"name", "label"} <= by_row[0]["hits"][0].keys()

    index, queries = HammingIndex.load(work / "digits.index"), Codes.load(work / "queries.codes")
    expected = index.search(queries, k=4)
    by_codes = read(f"search {work}/digits.index --codes {work}/queries.codes -k 4 --json")["queries"]
    assert [[hit["id"] for hit in query["hits"]] for query in by_codes] == expected.ids.tolist()

    by_model = read(f"search {work}/digits.index --model {work}/runs/digits digits --radius 1 --json")["queries"]
    ball = index.within(Codes.load(work / "digits.codes"), radius=1)
    assert [len(query["hits"]) for query in by_model] == ball.counts.tolist()

    table = scdh_output(f"search {work}/digits.index --row 7")
    assert "distance" in table
    assert "digits row" in table
    assert "label" in table


def test_index_carries_names_over_several_files(work: Path) -> None:
    scdh_output(f"index {work}/queries.codes --out {work}/grown.index")
    about = read(f"index {work}/database.codes --out {work}/grown.index --append --json")
    index = HammingIndex.load(work / "grown.index")
    assert about["items"] == len(index) == 1797
    assert about["bytes"] == (work / "grown.index").stat().st_size
    items = RowNames.load(work / "grown.index", index.ids, len(index))
    whole = RowNames.load(work / "digits.codes", np.arange(1797), 1797)
    assert items is not None
    assert whole is not None
    assert all(items.names[i] == whole.names[row] for i, row in enumerate(index.ids))
    assert all(items.label(i) == whole.label(row) for i, row in enumerate(index.ids))
    both = read(f"index {work}/queries.codes {work}/queries.codes --renumber --out {work}/twice.index --json")
    assert both["items"] == 600


def test_an_append_that_was_killed_half_way_is_done_again(work: Path) -> None:
    """The items are written before the index, so a kill in between leaves items that the index does not have."""
    scdh_output(f"index {work}/queries.codes --out {work}/killed.index")
    scdh_output(f"index {work}/database.codes --out {work}/complete.index")
    scdh_output(f"index {work}/queries.codes --append --out {work}/complete.index")
    (work / "killed.index.items.json").write_text((work / "complete.index.items.json").read_text())
    shown = read(f"search {work}/killed.index --row {Codes.load(work / 'queries.codes').ids[0]} -k 1 --json")
    assert shown["items"] == 300
    scdh_output(f"index {work}/database.codes --append --out {work}/killed.index")
    assert HammingIndex.load(work / "killed.index").codes == HammingIndex.load(work / "complete.index").codes
    assert (work / "killed.index.items.json").read_text() == (work / "complete.index.items.json").read_text()


def test_an_index_never_gets_the_names_of_another(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = work / "names.index"
    scdh_output(f"index {work}/queries.codes --out {place}")
    named = (work / "names.index.items.json").read_text()
    with IndexWriter(place):
        code, _, err = run_scdh(f"index {work}/digits.codes --out {place}")
    assert code == 2
    assert "names.index" in err
    assert (work / "names.index.items.json").read_text() == named
    Codes.from_signs(np.ones((3, 32)), ids=np.arange(3)).save(work / "nameless.codes")
    scdh_output(f"index {work}/nameless.codes --out {place}")
    assert "name" not in read(f"search {place} --row 0 --json")["queries"][0]["hits"][0]
    assert [file.name for file in work.iterdir() if "names.index" in file.name] == ["names.index"]


def test_an_index_can_be_checked_and_searched_by_label(work: Path) -> None:
    assert read(f"index --check {work}/digits.index --json")["sound"]
    hits = read(f"search --index {work}/digits.index --row 7 --label 3 --label 4 -k 5 --json")["queries"][0]["hits"]
    assert len(hits) == 5
    assert {hit["label"] for hit in hits} <= {"3", "4"}
    damaged = bytearray((work / "digits.index").read_bytes())
    damaged[9000] ^= 1
    (work / "damaged.index").write_bytes(damaged)
    code, _, err = run_scdh(f"index --check {work}/damaged.index")
    assert code == 2
    assert "checksum" in err


def test_codes_go_to_milvus_and_are_found_there(work: Path) -> None:
    place = f"milvus:{work}/vectors.db/digits"
    assert read(f"index {work}/digits.codes --to {place} --json")["sent"] == 1797
    again = read(f"index {work}/digits.codes --to {place} --json")
    assert (again["sent"], again["items"]) == (0, 1797)
    options = f"--codes {work}/queries.codes -k 4 --names {work}/digits.codes --json"
    there, here = read(f"search --index {place} {options}"), read(f"search {work}/digits.index {options}")
    assert there["queries"] == here["queries"]
    by_row = read(f"search --index {place} --row 7 --radius 2 --names {work}/digits.codes --label 7 --json")
    assert by_row["queries"] == read(f"search {work}/digits.index --row 7 --radius 2 --label 7 --json")["queries"]


def test_curves_are_drawn(work: Path) -> None:
    scdh_output(f"evaluate {work}/runs/digits --curves {work}/curves.png")
    assert (work / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_resume_takes_the_run_s_own_settings(work: Path) -> None:
    scdh_output(f"train --resume --out {work}/runs/digits")
    scdh_output(f"train --preset demo-digits --epochs 10 --resume --out {work}/runs/digits")
    code, _, err = run_scdh(f"train --preset demo-digits --epochs 11 --resume --out {work}/runs/digits")
    assert code == 2
    assert "train.epochs (10, not 11)" in err


def test_embeddings_get_a_network_for_embeddings(work: Path) -> None:
    shown = scdh_output("train --data digits --bits 16 --epochs 3 --show-config")
    assert shown.startswith("# digits holds embeddings, so these were chosen: net.backbone=")
    (work / "again.toml").write_text(shown)
    again = load_config(file=work / "again.toml")
    assert again.net.backbone == "features"
    assert again.net.hidden == [256]
    assert again.method.bits == 16
    assert again.train.epochs == 3
    assert again.train.optimiser == "adamw"
    assert again.model_dump(mode="json") == read("train --data digits --bits 16 --epochs 3 --show-config --json")


def test_photos_get_settings_for_a_machine_without_a_gpu(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_pictures(photos, [f"apples/{i}.png" for i in range(11)] + [f"pears/{i}.png" for i in range(7)])
    shown = read(f"train --data {photos} --show-config --json")
    assert shown["net"]["freeze"] is True
    assert shown["train"]["optimiser"] == "adamw"
    assert shown["train"]["epochs"] == 60
    assert shown["method"]["alpha"] == 1.0
    assert shown["data"]["query_per_class"] == 1  # a fifth of 7
    whole = read(f"train --data {photos} --set net.freeze=false --set data.query_per_class=2 --show-config --json")
    assert whole["net"]["freeze"] is False
    assert (whole["train"]["optimiser"], whole["train"]["batch_size"]) == ("adamw", 32)
    assert whole["data"]["query_per_class"] == 2
    untrained = read(f"train --data {photos} --set net.backbone=small_conv --show-config --json")
    assert untrained["net"]["freeze"] is False
    write_pictures(photos, ["plums/0.png"])
    assert read(f"train --data {photos} --show-config --json")["data"]["split"] == "all"


def test_the_next_commands_can_be_pasted(tmp_path: Path) -> None:
    np.save(tmp_path / "my vectors.npy", np.random.default_rng(0).normal(size=(40, 6)))
    np.save(tmp_path / "labels.npy", np.arange(40) % 2)
    words = ["train", "--data", f"{tmp_path}/my vectors.npy", "--labels", f"{tmp_path}/labels.npy", "--epochs", "1"]
    code, out, err = run_scdh([*words, "--out", f"{tmp_path}/a run"])
    assert code == 0, err
    lines = out.split("Next:\n")[1].splitlines()
    assert len(lines) == 4
    for line in lines:
        code, _, err = run_scdh(shlex.split(line)[1:])
        assert code == 0, err
    items = RowNames.load(tmp_path / "a run/all.codes", None, 40)
    assert items is not None
    assert items.labelled
    code, out, err = run_scdh([*words, "--set", "data.split=all", "--out", f"{tmp_path}/whole"])
    assert code == 0, err
    assert "scdh evaluate" not in out


def test_default_folder_and_json_of_train(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    content = read("train --preset demo-digits --epochs 1 --bits 8 --seed 3 --json")
    assert content["run"] == "runs/digits-scdh-8bit-seed3"
    assert Path(content["model"], "model.safetensors").exists()
    assert content["config"]["method"]["bits"] == content["bits"] == 8


def test_many_labels_and_loose_items(tmp_path: Path) -> None:
    labels = np.zeros((4, 3), np.uint8)
    labels[[0, 1, 1, 3], [0, 1, 2, 2]] = 1
    items = RowNames(np.arange(4), ["a", "b [x]", "c", "d"], labels, ["red", "green", "blue"])
    items.save(tmp_path / "c")
    again = RowNames.load(tmp_path / "c", None, 4)
    assert again is not None
    assert np.array_equal(again.labels, labels)
    assert again.label(1) == "green, blue"
    assert again.label(2) == ""
    assert again.names == items.names
    other = again.labels_among(["blue", "red", "green", "black"], multi=True)
    assert other.tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]]


def test_datasets_and_methods() -> None:
    listed = scdh_output("datasets")
    assert "cifar10" in listed
    assert "nuswide21" in listed
    assert "hf:owner/name" in listed
    about = read("datasets digits --json")
    assert about["rows"] == 1797
    assert about["kind"] == "embeddings"
    assert about["classes"]["0"] == 178
    assert "1,797 embeddings of width 64" in scdh_output("datasets digits")


def test_methods() -> None:
    known = json.loads(scdh_output("methods --json"))
    names = [method["name"] for method in known]
    ours = [name for name in names if "scdh" in name]
    assert {"scdh", "mt_scdh"} <= set(ours)
    assert names[: len(ours)] == ours  # the paper's own first, and what is fitted at once last
    trained = [method["trained"] for method in known]
    assert trained == sorted(trained, reverse=True)
    assert {method["name"] for method in known if method["unlabelled"]} >= {"mt_scdh"}
    shown = " ".join(scdh_output("methods").split())
    for column in ("name", "kind", "year", "labels", "unlabelled", "cost per step", "fidelity", "reference"):
        assert column in shown
    assert all(name in shown for name in names)
    assert "IEEE TIP" in shown
    assert "method.alpha" in scdh_output("methods scdh")
    assert "Rows without label are learned from too" in scdh_output("methods mt_scdh")
    assert json.loads(scdh_output("methods itq --json"))["trained"] is False


def test_version_and_bare_call() -> None:
    assert scdh_output("--version") == f"scdh {__version__}\n"
    assert run_scdh([])[0] == 0
    assert "Usage: scdh" in run_scdh([])[1]


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples(name: str) -> None:
    shown = scdh_output(f"{name} --help")
    assert "Examples" in shown
    assert shown.count(f"scdh {name}") >= 2


def test_examples_on_digits_run(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples whose files exist here; those that train take too long, some need downloads."""
    monkeypatch.chdir(work)
    tried = 0
    for _, examples in COMMANDS:
        for example in examples:
            words = shlex.split(example)[1:]
            files = [word for word in words if word.startswith("runs/") or word.endswith((".codes", ".index", "/"))]
            out = words[words.index("--out") + 1] if "--out" in words else None
            missing = [file for file in files if file != out and not Path(file).exists()]
            if words[0] in ("demo", "train", "compare") or missing:
                continue
            if any(word.endswith((".parquet", ".jpg")) or "://" in word for word in words):
                continue
            scdh_output(example.removeprefix("scdh "))
            tried += 1
    assert tried >= 12


def test_light_commands_do_not_load_torch(work: Path) -> None:
    commands = [
        "--help",
        "datasets",
        "datasets digits",
        f"index {work}/digits.codes --out {work}/light.index",
        f"search {work}/digits.index --row 0",
        f"search {work}/digits.index --codes {work}/queries.codes --json",
        f"evaluate --queries {work}/queries.codes --database {work}/database.codes",
    ]
    script = (
        "import sys\nfrom scdh.cli import main\n"
        f"for command in {commands!r}:\n"
        "    try:\n        main(command.split())\n"
        "    except SystemExit as ending:\n        assert not ending.code, command\n"
        "    assert 'torch' not in sys.modules, command\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert run_scdh("datasets") == (0, "", "")
    assert run_scdh("datasets nowhere")[2].startswith("[process 1] Error: ")


def test_module_can_be_run() -> None:
    done = subprocess.run([sys.executable, "-m", "scdh", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"scdh {__version__}\n"
