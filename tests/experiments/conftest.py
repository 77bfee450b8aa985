"""A comparison that several files of tests look at."""

from pathlib import Path

import pytest
import torch

from tests.cli.commands import must
from tests.experiments.comparisons import TWO_LENGTHS


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison that ran without interruption."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("compared") / "whole"
    must(f"compare {TWO_LENGTHS} --out {out}")
    return out
