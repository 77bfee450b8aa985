"""The scripts of research at toy size, and research/README.md, which lists each with a page that names it."""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import pytest

from research import few_labels, ranking
from scdh import Codes, HammingIndex

FOLDER = Path(__file__).parents[2] / "research"


def test_every_script_has_one_line_with_a_page_that_names_it():
    scripts = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}
    lines = [line for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == [f"{name}.py" for name in sorted(scripts)]
    for line in lines:
        name = line.split("`")[1].removesuffix(".py")
        (page,) = re.findall(r"\]\(\.\./([^)]+)\)", line)
        assert f"python -m research.{name}" in line
        assert f"research.{name}" in (FOLDER.parent / page).read_text("utf-8")


def blobs(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count)
    x = (np.eye(3)[labels] @ rng.normal(size=(3, 8)) + 0.5 * rng.normal(size=(count, 8))).astype(np.float32)
    return {"x": x, "y": labels}


def test_each_ranking_is_scored_for_each_part_with_its_bytes(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    np.savez(tmp_path / "blobs.npz", **blobs(160))
    options = argparse.Namespace(embeddings=[tmp_path / "blobs.npz"], bits=[12], seeds=1, vectors=True)
    vars(options).update(part=["query", "validation"], rows=tmp_path / "rows.jsonl")
    ranking.main(options)
    printed = capsys.readouterr().out
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    assert [row["bytes"] for row in rows if row["part"] == "query"] == [2, 2, 2, 14, 14, 26, 48, 10, 32]
    assert all(0.3 < row[name] <= 1 for row in rows for name in ranking.SCORES)
    assert "| 12 | outputs | 2 |" in printed
    ranking.main(options)  # nothing is computed again
    assert len(options.rows.read_text().splitlines()) == len(rows)
    assert capsys.readouterr().out == printed


def test_the_order_of_outputs_is_that_of_a_search() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(3, 6)), rng.normal(size=(40, 6))
    found = {name: distances for name, _, distances, _ in ranking._rankings(u, v, u, v, False)}
    codes, items = Codes.from_signs(u), Codes.from_signs(v)
    hits = HammingIndex(items).search(codes, k=40, weights=np.abs(u))
    assert np.allclose(np.sort(found["outputs"], axis=1), hits.distances, atol=1e-6)
    by_bits = HammingIndex(items).search(codes, k=40).distances
    assert np.array_equal(np.floor(np.sort(found["ties by outputs"], axis=1)), by_bits)


def test_queries_of_a_mask_never_train() -> None:
    is_query = np.arange(100) < 40
    rows = ranking.split(100, is_query, 0)
    assert sorted(rows["query"]) == list(range(40))
    assert sorted(np.concatenate([rows[name] for name in ("validation", "trained", "rest")])) == list(range(40, 100))


def test_ranking_again_moves_only_the_nearest() -> None:
    hamming, away = np.array([[0.0, 1, 1.1, 2]]), np.array([[0.3, -0.2, -0.9, -1]])
    assert np.argsort(ranking.ranked_again(hamming, away, 3)).tolist() == [[2, 1, 0, 3]]
    relevant = np.array([[True, False, True, False]])
    assert ranking.score(hamming, relevant) == ((1 + 2 / 3) / 2, 1.0, 0.5)


pytest.importorskip("matplotlib")


def options_of(folder: Path, **changes: object) -> argparse.Namespace:
    chosen: dict = {"chosen": [("digits", True)], "labels": (2, 5), "steps": 20, "seeds": 2, "cache": None}
    return argparse.Namespace(out=folder, **chosen | changes)


@pytest.mark.slow
def test_rows_and_picture(tmp_path: Path) -> None:
    rows = few_labels.curves(options_of(tmp_path))
    assert [(row["labels"], row["labelled"]) for row in rows if row["title"] == "SCDH"] == [(2, 20), (5, 50)]
    assert {row["title"] for row in rows} == {"SCDH", "MT-SCDH", "MT-SCDH (student)"}
    assert all(row["runs"] == 2 and 0 < row["map"] < 1 for row in rows)
    few_labels.draw(rows, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    again = few_labels.curves(options_of(tmp_path))  # kept runs are read, not run again
    assert [row["map"] for row in again] == [row["map"] for row in rows]


@pytest.mark.slow
def test_all_methods_have_the_same_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_labels, "RATES", (0.001, 0.01))
    rows = few_labels.tuned(options_of(tmp_path, labels=(5,), seeds=1))
    assert {row["title"] for row in rows} == {"SCDH", "MT-SCDH", "BGDH", "SemiSDH"}
    folders = sorted((tmp_path / "tuned").glob("digits-5-0-*/tuning"))
    assert [len(list(folder.glob("cells/*/config.json"))) for folder in folders] == [6] * 4
