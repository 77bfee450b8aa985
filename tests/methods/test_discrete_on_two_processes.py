"""Methods whose discrete steps look at all training rows have the same losses in one process and in two."""

import csv

import numpy as np
import pytest

from scdh.config import load_config
from scdh.hasher import Hasher
from tests.cli.commands import run_on_two_processes

METHODS = {
    "dish": ["method.code_dropout=0.0"],
    "ftde": ["method.triplets=20"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_give_the_same_losses(name, tmp_path):
    small = [
        "data.train_per_class=20",
        "train.batch_size=40",
        "train.epoch_steps=5",
        "train.epochs=3",
        "method.bits=16",
    ]
    options = [*small, "net.dropout=0.0", f"method.name={name}", *METHODS[name]]
    Hasher.train(load_config("demo-digits", overrides=options), tmp_path / "one", quiet=True)
    settings = [argument for option in options for argument in ("--set", option)]
    run_on_two_processes(["train", "--preset", "demo-digits", *settings, "--out", str(tmp_path / "two")])
    curves = []
    for run in ("one", "two"):
        with open(tmp_path / run / "steps.csv", newline="") as handle:
            curves.append([float(row["loss"]) for row in csv.DictReader(handle)])
    assert len(curves[0]) == 15
    assert curves[0][-1] < curves[0][10]  # the last epoch has other targets than the first, and learns them
    np.testing.assert_allclose(*curves, rtol=2e-4, atol=2e-5)
