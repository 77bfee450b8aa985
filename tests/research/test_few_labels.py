"""The curve over the number of labels, on two small counts."""

from pathlib import Path

import pytest

from research import few_labels

pytest.importorskip("matplotlib")


@pytest.mark.slow
def test_rows_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_labels, "STEPS", {**few_labels.STEPS, "train.epoch_steps": 5, "train.epochs": 2})
    rows = few_labels.run("digits", tmp_path, (0, 1), (2, 5))
    assert [(row["labels"], row["labelled"]) for row in rows if row["title"] == "SCDH"] == [(2, 20), (5, 50)]
    assert {row["title"] for row in rows} == {"SCDH", "MT-SCDH", "MT-SCDH (student)"}
    assert all(row["runs"] == 2 and 0 < row["map"] < 1 for row in rows)
    few_labels.draw(rows, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    again = few_labels.run("digits", tmp_path, (0, 1), (2, 5))  # kept runs are read, not run again
    assert [row["map"] for row in again] == [row["map"] for row in rows]
