"""Outputs beside their centres, by hand and of a small run."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import centre_distances
from scdh.data.open import open_source
from scdh.errors import DataError
from scdh.runs.folder import RunFolder
from tests.cli.commands import must


def test_distances_to_centres_by_hand() -> None:
    centres = np.array([[3.0, 4.0], [0.0, -5.0]])
    u = np.array([[6.0, 8.0], [0.0, -5.0], [3.0, 4.0]])
    norm, own, nearest = centre_distances.beside_centres(u, np.array([0, 1, 1]), centres)
    assert (norm, nearest) == ("5.0", "0.667")
    assert own == f"{(5 + 0 + np.hypot(3, 9)) / 3:.1f}"


@pytest.mark.slow
def test_a_run_is_measured_on_rows_that_it_did_not_learn_from(tmp_path: Path) -> None:
    few = "--preset demo-digits --epochs 8 --set data.train_per_class=100"
    must(f"train {few} --out {tmp_path / 'run'}")
    source = open_source("digits")
    line = centre_distances.measure(RunFolder(tmp_path / "run"), source)
    values = dict(zip(centre_distances.COLUMNS, line, strict=True))
    assert values["run"] == "run"
    assert 0.3 < float(values["MAP of codes"]) <= 1
    assert 0.3 < float(values["nearest c"]) <= 1
    must(f"train {few} --method dsh --out {tmp_path / 'without'}")
    assert centre_distances.measure(RunFolder(tmp_path / "without"), source)[-3:] == ["–", "–", "–"]
    must(f"train --preset demo-digits --epochs 1 --out {tmp_path / 'all'}")
    with pytest.raises(DataError, match="nearly all rows"):
        centre_distances.measure(RunFolder(tmp_path / "all"), source)
