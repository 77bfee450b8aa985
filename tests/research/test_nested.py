"""Nested codes against one model per length, at toy size."""

from pathlib import Path

import numpy as np
import pytest

from research import nested


def test_the_table_compares_each_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    np.savez(tmp_path / "a.npz", x=rng.normal(size=(80, 6)) + 3 * y[:, None], y=y)
    rows = ["data.query_per_class=5", "data.train_per_class=20", "data.validation_per_class=0"]
    short = ["train.epochs=1", "net.hidden=[]", "net.dropout=none", *rows]
    nested.main([f"{tmp_path}/a.npz", "--bits", "4", "9", "--seeds", "2", *(f"--set={one}" for one in short)])
    printed = capsys.readouterr().out
    assert printed.count("seed ") == 2
    assert [line.split("|")[1].strip() for line in printed.splitlines()[-4:-2]] == ["4", "9"]
    assert "the time of 9 bits alone" in printed
