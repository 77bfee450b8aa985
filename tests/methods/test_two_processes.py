"""Every method runs in two processes: their weights and tables stay the same, tables of all rows are those of one
process and, where rows count one by one, so are the losses. All methods run in one pair of processes, as each start
takes seconds.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.methods.harness import FITTED, METHODS, TRAINED

pytestmark = pytest.mark.slow

# Rows count one by one: neither pairs of a batch, nor batch-norm, nor (in these settings) noise. DPSH compares them
# with a table.
SAME_LOSSES = {
    *("cls_lsh", "cls_onehot", "cnnbh", "csq", "dish", "dpn", "dpsh", "ftde", "greedyhash", "mt_scdh", "scdh"),
    *("scdh_c", "scdh_s", "ssdh"),
}
TABLES = ("bgdh", "mdsh")  # methods with a table of all rows that is not of their own outputs alone


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``one`` and ``two`` with a run of every method, by one process and by two."""
    folder = tmp_path_factory.mktemp("processes")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    for name, start in (("one", []), ("two", launcher)):
        (folder / name).mkdir()
        command = [sys.executable, *start, "-m", "tests.methods.train_every_method", str(folder / name), *METHODS]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def losses(run: Path) -> dict[str, list[float]]:
    """The losses of all steps by name, the sum and its parts."""
    with (run / "steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0] if name not in ("epoch", "step", "lr")}


@pytest.mark.parametrize("name", TRAINED)
def test_both_processes_have_the_same_weights_and_tables(name: str, runs: Path) -> None:
    first, second = (json.loads((runs / "two" / f"weights-{rank}.json").read_text()) for rank in (0, 1))
    assert first[name] == second[name]
    curve = losses(runs / "two" / name)["loss"]
    assert len(curve) == 9
    assert np.isfinite(curve).all()


@pytest.mark.parametrize("name", FITTED)
def test_what_is_fitted_is_the_same_everywhere(name: str, runs: Path) -> None:
    files = [("one", 0), ("two", 0), ("two", 1)]
    fitted = [json.loads((runs / folder / f"weights-{rank}.json").read_text())[name] for folder, rank in files]
    assert len(set(fitted)) == 1
    assert (runs / "two" / name / "model").is_dir()


@pytest.mark.parametrize("name", sorted(SAME_LOSSES))
def test_losses_are_those_of_one_process(name: str, runs: Path) -> None:
    one, two = losses(runs / "one" / name), losses(runs / "two" / name)
    assert one["loss"][-1] != one["loss"][0]
    assert one.keys() == two.keys()
    for part in one:
        np.testing.assert_allclose(two[part], one[part], rtol=2e-3 if name == "mt_scdh" else 2e-4, atol=2e-5)


def test_tables_of_all_rows_are_those_of_one_process(runs: Path) -> None:
    bgdh, mdsh = ([load_file(runs / side / name / "last.safetensors") for side in ("one", "two")] for name in TABLES)
    for key in ("nearest", "weights", "walks"):
        np.testing.assert_allclose(*(tensors[f"method.graph.{key}"] for tensors in bgdh), rtol=1e-5, atol=1e-6)
    # Before the first update the loss is the same; later pairs of half a batch give other weights.
    one, two = (losses(runs / side / "bgdh")["graph"][0] for side in ("one", "two"))
    assert one == pytest.approx(two, rel=1e-4)
    np.testing.assert_array_equal(*(tensors["method.hash_centres"] for tensors in mdsh))
    seen = [tensors["method.stored.outputs"].any(axis=1) for tensors in mdsh]
    np.testing.assert_array_equal(*seen)
    assert seen[0].mean() > 0.9  # a process alone would see half of the rows of an epoch
