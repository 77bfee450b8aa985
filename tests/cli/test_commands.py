"""The command line from end to end on digits."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from rich.text import Text
from typer.main import get_command

from scdh import __version__
from scdh.cli.app import COMMANDS, app
from tests.cli.commands import fails, must, run, run_json

NAMES = [command.__name__ for command, _ in COMMANDS]


def test_evaluate_scores_a_run(work: Path) -> None:
    content = run_json(f"evaluate {work}/runs/digits --json")
    assert content["map"] > 0.8
    assert content["map_worst"] <= content["map"] <= content["map_best"]
    assert content["definition"]["queries"] == 300
    assert content["definition"]["database"] == 1497
    stored = json.loads((work / "runs/digits/scores.json").read_text())
    assert content == {key: value for key, value in stored.items() if key != "checksum"}
    assert {"config", "versions", "seconds", "protocol", "l_q", "model"} <= content.keys()
    with np.load(work / "runs/digits/per_query.npz", allow_pickle=False) as per_query:
        assert per_query["ap"].mean() == pytest.approx(content["map"])
        assert len(per_query["rows"]) == 300


def test_evaluating_files_gives_the_run_s_scores(work: Path) -> None:
    # Scoring real distances loads a compiled loop, whose sums for codes may have another last digit than numpy's.
    run_scores = run_json(f"evaluate {work}/runs/digits --no-floats --no-outputs --json")
    files = run_json(f"evaluate --queries {work}/queries.codes --database {work}/database.codes --json")
    folder = f"{work}/runs/digits/codes"
    run_files = run_json(f"evaluate --queries {folder}/query.codes --database {folder}/database.codes --json")
    for name in ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_k", "definition"):
        assert files[name] == run_files[name] == run_scores[name]
    assert run_files["l_q"] == run_scores["l_q"]  # of codes that a scoring made
    assert "l_q" not in files  # `scdh encode` computes no loss
    table = must(f"evaluate --queries {work}/queries.codes --database {work}/database.codes --topk 100")
    assert "MAP@100, ties expected" in table
    assert "precision within radius 2" in table
    assert "300 queries" in table


def test_datasets_and_methods() -> None:
    listed = must("datasets")
    assert "cifar10" in listed
    assert "nuswide21" in listed
    assert "hf:owner/name" in listed
    about = run_json("datasets digits --json")
    assert about["rows"] == 1797
    assert about["kind"] == "embeddings"
    assert about["classes"]["0"] == 178
    assert "1,797 embeddings of width 64" in must("datasets digits")


def test_methods() -> None:
    known = run_json("methods --json")
    names = [method["name"] for method in known]
    ours = [name for name in names if "scdh" in name]
    assert {"scdh", "mt_scdh"} <= set(ours)
    assert names[: len(ours)] == ours  # the paper's own first, and of a group what is fitted at once last
    for group in {method["group"] for method in known}:
        trained = [method["trained"] for method in known if method["group"] == group]
        assert trained == sorted(trained, reverse=True)
    assert {method["name"] for method in known if method["unlabelled"]} >= {"mt_scdh"}
    assert {method["name"] for method in known if not method["needs_labels"]} >= {"itq", "lsh", "pca"}
    assert "Labels: none needed. Works on data without labels." in must("methods pca")
    assert "min  SCUL(u, y; C, λ) + μ l_1(fc8, y) + α l_q(u)" in must("methods scdh")  # the equation
    assert "Fidelity: variant. What differs: the first epochs" in " ".join(must("methods dpsh").split())
    assert run_json("methods itq --json")["trained"] is False
    for name in ("dqn", "cls_onehot"):
        ranking = run_json(f"methods {name} --json")["ranking"]
        assert f"Ranked by {ranking}, not by Hamming distance" in " ".join(must(f"methods {name}").split())


def test_version_and_bare_call() -> None:
    assert must("--version") == f"scdh {__version__}\n"
    assert run([])[0] == 0
    assert "Usage: scdh" in run([])[1]


def test_no_help_text_loses_a_bracket() -> None:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        for text in (command.help, *(getattr(option, "help", None) for option in command.params)):
            assert Text.from_markup(text or "").plain == (text or "").replace("\\[", "["), name


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples(name: str) -> None:
    output = must(f"{name} --help")
    assert "<bool>" not in output
    assert "Examples" in output
    assert output.count(f"scdh {name}") >= 2


@pytest.mark.slow
def test_examples_on_digits_run(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples whose files exist here; those that train take too long, some need downloads."""
    monkeypatch.chdir(work)
    tried = 0
    for _, examples in COMMANDS:
        for example in examples:
            arguments = shlex.split(example)[1:]
            files = [
                argument
                for argument in arguments
                if argument.startswith("runs/") or argument.endswith((".codes", ".index", "/"))
            ]
            out = arguments[arguments.index("--out") + 1] if "--out" in arguments else None
            missing = [file for file in files if file != out and not Path(file).exists()]
            if arguments[0] in ("demo", "train", "compare", "reproduce") or missing or "owner/" in example:
                continue
            if (
                any(a.endswith((".parquet", ".csv", ".jpg")) or "://" in a for a in arguments)
                or "--remove" in arguments
                or "--clear" in arguments  # the caches of whoever runs the tests
            ):
                continue
            if out is not None and "--append" not in arguments and "--replace" not in arguments:
                arguments.append("--replace")  # of a file that an earlier example or the fixture wrote
            must(arguments)
            tried += 1
    assert tried >= 12


def test_a_rank_in_the_environment_silences_no_command(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters set it for all that runs on a node; only processes that train together leave printing to the first."""
    alone, methods = run("datasets"), run("methods")
    monkeypatch.setenv("RANK", "1")
    for count in ("1", "2", ""):
        monkeypatch.setenv("WORLD_SIZE", count)
        assert run("datasets") == alone
        assert run("methods") == methods
        assert run("datasets nowhere")[2].startswith("Error: ")
        assert run(f"search {work}/digits.index --row 0")[1]
        assert run("train --preset demo-digits --show-config")[1]


def test_only_the_first_of_several_training_processes_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "file").touch()
    code, out, message = run(f"train --preset demo-digits --no-trials --out {tmp_path}/file/run")
    assert (code, out) == (2, "")
    assert message.startswith("[process 1] Error: ")


def test_a_comparison_rejects_several_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "without torchrun" in fails(f"compare itq --data digits --bits 8 --out {tmp_path}/x")
