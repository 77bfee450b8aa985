"""Files that several tests of the command line look at."""

from pathlib import Path

import pytest
import torch

from tests.cli.commands import must


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, codes and an index of digits, named as in the examples of the help texts."""
    torch.set_num_threads(1)
    d = tmp_path_factory.mktemp("work")
    must(f"train --preset demo-digits --epochs 10 --out {d}/runs/digits")
    must(f"encode {d}/runs/digits digits --out {d}/digits.codes")
    must(f"encode {d}/runs/digits digits --part query --out {d}/queries.codes")
    must(f"encode {d}/runs/digits digits --part database --out {d}/database.codes")
    must(f"index {d}/digits.codes --out {d}/digits.index")
    return d
