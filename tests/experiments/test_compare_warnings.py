"""Warnings of a comparison name the run, trial or timing that they are about."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from scdh.data import ArraySource
from scdh.experiments.compare import rates
from scdh.experiments.compare.budget import epochs_within
from scdh.experiments.compare.grid import Grid
from scdh.training import trials


@pytest.fixture
def source() -> ArraySource:
    """More classes than codes of 3 bits, so that CSQ says that some share a centre."""
    labels = np.arange(240) % 12
    return ArraySource(np.random.default_rng(0).normal(size=(240, 8)), labels, name="made-up")


GRID = Grid(("csq",), (3,), (0,), settings={"data.source": "made-up", "net.hidden": [8], "train.epochs": 1})


def test_trials_and_timing(source: ArraySource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LEAST_VALIDATION_ROWS", 12)
    monkeypatch.setattr(rates, "RATES", (0.001, 0.01))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        rates.own_rates(GRID, source, tmp_path, tmp_path, lambda _: None)
    assert shown
    assert all(str(warning.message).startswith("trials of csq-3-0: ") for warning in shown)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        epochs_within(GRID, source, tmp_path, 0.01, tmp_path)
    assert shown
    assert all(str(warning.message).startswith("timing of csq-3: ") for warning in shown)
