"""Both rankings of the same runs, at toy size."""

import json
from pathlib import Path

import pytest

from research import both_rankings


@pytest.mark.slow
def test_rows_of_both_rankings_and_their_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["digits", "--bits", "8", "16", "--seeds", "2", "--out", str(tmp_path)]
    settings = ["--set", "train.epochs=1", "--set", "train.epoch_steps=30"]
    both_rankings.main([*arguments, *settings])
    rows = json.loads((tmp_path / "both_rankings.json").read_text())
    assert [(row["bits"], row["seed"]) for row in rows] == [(8, 0), (8, 1), (16, 0), (16, 1)]
    assert all(0 < row[name] <= 1 for row in rows for name in ("by bits", "by outputs"))
    assert any(row["by bits"] != row["by outputs"] for row in rows)
    assert len({row["protocol"] for row in rows}) == 2  # a split for each seed, the same at every length
    assert (tmp_path / "both_rankings.md").read_text() in capsys.readouterr().out

    models = sorted(tmp_path.rglob("model.safetensors"))
    times = [file.stat().st_mtime_ns for file in models]
    assert len(models) >= 4
    assert both_rankings.run("digits", tmp_path, (8, 16), (0, 1), {"train.epochs": 1, "train.epoch_steps": 30}) == rows
    assert [file.stat().st_mtime_ns for file in models] == times  # finished runs are read, not run again


def test_the_table_has_means_and_the_smallest_gain() -> None:
    rows = [
        {"data": "digits", "bits": 8, "seed": 0, "by bits": 0.5, "by outputs": 0.7},
        {"data": "digits", "bits": 8, "seed": 1, "by bits": 0.7, "by outputs": 0.6},
        {"data": "digits", "bits": 12, "seed": 0, "by bits": 0.25, "by outputs": 0.5},
    ]
    lines = both_rankings.table(rows).splitlines()
    assert lines[2] == "| digits | 8 | 0.600 ± 0.141 | 0.650 ± 0.071 | +0.050 | -0.100 | 2 |"
    assert lines[3] == "| digits | 12 | 0.250 | 0.500 | +0.250 | +0.250 | 1 |"


def test_an_unknown_data_set_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        both_rankings.main(["letters"])
    assert "letters" in capsys.readouterr().err
