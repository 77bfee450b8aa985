"""The counts of the split are printed before work begins, by train, evaluate, compare and datasets."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import must, run, run_json

QUICK = "--set net.hidden=[8] --set train.batch_size=16 --epochs 1"
COUNTS = (
    "Split: train 40 · validation 10 · query 20 · database 46 · unlabelled 6 rows (array split of v.npz; database: "
)
AS_JSON = {"train": 40, "validation": 10, "query": 20, "database": 46, "unlabelled": 6}


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    split = np.repeat(["train", "val", "Query", "unlabelled"], [40, 10, 20, 6])
    labels = np.where(np.arange(76) < 70, np.arange(76) % 2, -1)
    np.savez(tmp_path / "v.npz", X=np.random.default_rng(0).normal(size=(76, 5)), y=labels, split=split)
    return tmp_path / "v.npz"


def test_train_and_evaluate(vectors: Path) -> None:
    out = must(f"train --data {vectors} {QUICK} --bits 8 --out {vectors.parent}/run")
    assert COUNTS in out
    assert out.index("Split:") < out.index("The model is in")
    printed = must(f"evaluate {vectors.parent}/run")
    assert printed.startswith(COUNTS)
    scores = run_json(f"evaluate {vectors.parent}/run --json")
    assert scores["split_counts"] == AS_JSON
    assert scores["split_about"].startswith("array split of v.npz")
    assert scores["definition"]["queries"] == 20
    content = run_json(f"train --data {vectors} {QUICK} --bits 8 --out {vectors.parent}/again --json")
    assert content["split_counts"] == AS_JSON


def test_compare(vectors: Path) -> None:
    command = f"compare scdh lsh --data {vectors} {QUICK} --bits 4 --seeds 0 --out {vectors.parent}/compared"
    assert must(command).startswith(COUNTS)
    data = run_json(f"{command} --json")["data"]
    assert {part: data[part] for part in AS_JSON} == AS_JSON


def test_datasets(vectors: Path) -> None:
    out = must(f"datasets {vectors}")
    assert "test 20, train 40, unlabelled 6, val 10" in out
    assert "train 40, validation 10, query 20, database 46, unlabelled 6" in out
    assert run_json(f"datasets {vectors} --json")["split_counts"] == AS_JSON
    asked = vectors.with_name("asked.npz")
    np.savez(asked, X=np.eye(4), y=np.arange(4) % 2, split=np.array(["train", "train", "odd", "test"]))
    assert "'odd' has no known meaning" in " ".join(must(f"datasets {asked}").split())
    assert run_json(f"datasets {asked} --json")["split_counts"] is None
    code, _, err = run(f"train --data {asked} --out {vectors.parent}/x")
    assert code == 2
    assert "--set data.validation=odd" in err  # train and test are there


def test_a_run_without_queries_is_not_sent_to_be_evaluated(tmp_path: Path) -> None:
    np.savez(tmp_path / "alone.npz", X=np.random.default_rng(0).normal(size=(30, 5)), y=np.arange(30))
    out = must(f"train --data {tmp_path}/alone.npz {QUICK} --bits 8 --out {tmp_path}/run")
    assert "train 30 · validation 0 · query 0 · database 30" in out
    assert "no queries to evaluate with" in out
    assert "scdh evaluate" not in out


@pytest.mark.parametrize(("method", "advised"), [("scdh", "--method itq"), ("itq", "try more bits")])
def test_labels_of_one_row_each_are_not_blamed_on_settings(tmp_path: Path, method: str, advised: str) -> None:
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(40, 16)), 2, axis=0) + 0.1 * rng.normal(size=(80, 16))
    np.savez(tmp_path / "pairs.npz", X=vectors, y=np.repeat(np.arange(40), 2))
    quick = QUICK if method == "scdh" else ""
    must(f"train --data {tmp_path}/pairs.npz {quick} --method {method} --bits 4 --out {tmp_path}/run")
    advice = run_json(f"evaluate {tmp_path}/run --json")["advice"]
    assert "1.0 items per label" in advice
    assert advised in advice
    assert "--method scdh" not in advice
