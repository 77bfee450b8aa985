"""Training from pairs against labels, at toy size."""

from pathlib import Path

import numpy as np
import pytest

from research import pairs
from scdh.training import clusters


def test_pairs_have_both_kinds_and_the_share_of_errors() -> None:
    labels, rows = np.arange(400) % 4, np.arange(100, 300)
    drawn = np.array(pairs.draw_pairs(labels, rows, 5, 0.1, 0))
    assert set(drawn[:, :2].ravel().tolist()) == set(rows.tolist())
    assert (drawn[:, 0] != drawn[:, 1]).all()
    alike = labels[drawn[:, 0]] == labels[drawn[:, 1]]
    assert alike.mean() == pytest.approx(0.5, abs=0.06)
    assert (alike != drawn[:, 2]).mean() == pytest.approx(0.1, abs=0.04)


@pytest.mark.slow
def test_the_table_has_a_line_per_number_of_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "STEPS", 50)
    rng, y = np.random.default_rng(0), np.arange(240) % 2
    part = np.array(["train"] * 180 + ["test"] * 20 + [""] * 40)
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(240, 6)) + 3 * y[:, None], y=y, part=part)
    short = ["--pairs", "3", "--wrong", "0.05", "--methods", "scdh", "--bits", "8", "--seeds", "0"]
    for _ in range(2):  # the second time everything is done
        pairs.main([f"{tmp_path}/a.npz", *short, "--out", f"{tmp_path}/rows.json"])
        printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 5
    assert printed[2].split("|")[1].strip() == "3"
    assert printed[-1].startswith("SCDH with all labels: 0.9") or printed[-1].startswith("SCDH with all labels: 1.0")
