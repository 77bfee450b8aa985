"""The scripts of research at toy size, and research/README.md, which lists each with a page that names it."""

import argparse
import re
from pathlib import Path

import numpy as np
import pytest

from research import few_labels, rescoring

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


def test_more_is_ranked_better_and_bytes_are_those_of_an_item() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    x = (np.eye(3)[labels] @ rng.normal(size=(3, 8)) + 0.5 * rng.normal(size=(120, 8))).astype(np.float32)
    rows = {row["ranking"]: row for row in rescoring.measure(x, labels, 12, 0)}
    assert [row["bytes"] for row in rows.values()] == [2, 2, 14, 14, 26, 26, 48, 10, 32]
    assert all(0.3 < float(str(row["MAP"])) <= 1 for row in rows.values())


def test_ranking_again_moves_only_the_nearest() -> None:
    hamming, away = np.array([[0.0, 1, 1, 2]]), np.array([[0.3, -0.2, -0.9, -1]])
    assert np.argsort(rescoring._again(hamming, away, 3)).tolist() == [[2, 1, 0, 3]]
    relevant = np.array([[True, False, True, False]])
    assert rescoring._scores(hamming, relevant) == ((1 + 2 / 3) / 2, 1.0, 0.5)


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
