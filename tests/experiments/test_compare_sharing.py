"""A comparison that is killed, resumed and shared by two processes comes out the same."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scdh.experiments.compare.cell import CellRunner
from tests.cli.commands import run
from tests.experiments.comparisons import CELLS, EIGHT_BITS, read_json, scores_by_file

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

HANGS_IN_THE_SECOND_CELL = """
import sys, time
import scdh.training.loop as loop
from scdh.cli import main

save, saved = loop.save_checkpoint, []
def save_and_hang(*arguments):
    save(*arguments)
    saved.append(1)
    if len(saved) == 3:
        print("hangs", flush=True)
        time.sleep(600)
loop.save_checkpoint = save_and_hang
main(sys.argv[1:])
"""
WAITS_IN_ITS_FIRST_CELL = """
import sys, time
from pathlib import Path
from scdh.cli import main
from scdh.experiments.compare.cell import CellRunner

train = CellRunner._train
def wait(self, cell, folder):
    print(cell.name, flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    train(self, cell, folder)
CellRunner._train = wait
main(sys.argv[2:])
"""


@pytest.mark.slow
def test_killed_resumed_and_shared_it_comes_out_the_same(
    compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, command = tmp_path / "shared", ["compare", *EIGHT_BITS.split(), "--out", str(tmp_path / "shared")]
    with subprocess.Popen(
        [sys.executable, "-c", HANGS_IN_THE_SECOND_CELL, *command], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert "hangs\n" in iter(killed.stdout.readline, "")  # after the counts of the split
        killed.send_signal(signal.SIGKILL)
    names = [name for name in CELLS if "-8-" in name]
    done = [name for name in names if (out / "cells" / name / "model").exists()]
    assert done == ["scdh-8-0"]
    assert not list(out.glob("cells/*/scores*.json"))  # queries are scored when all is trained
    assert (out / "cells/mt_scdh-8-0/last.safetensors").exists()  # half way

    run_here: list[str] = []
    train = CellRunner._train

    def record(self: Any, cell: Any, folder: Path) -> None:
        run_here.append(cell.name)
        train(self, cell, folder)

    monkeypatch.setattr(CellRunner, "_train", record)
    go = tmp_path / "go"
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_IN_ITS_FIRST_CELL, str(go), *command], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        lines = (line.strip() for line in iter(other.stdout.readline, ""))
        waiting_cell = next(line for line in lines if line in names)  # after the counts of the split
        code, text, notes = run(command)  # does all the rest meanwhile
        assert code == 0
        assert "Not done yet: " in text
        assert f"Another process is still at {waiting_cell}; queries are scored when all runs are trained" in notes
        assert set(read_json(out / "compare.json")["missing"]) == set(names)  # none is scored before all are trained
        assert not list(out.glob("cells/*/scores*.json"))
        assert waiting_cell in (out / "compare.html").read_text("utf-8")
        assert waiting_cell.replace("_", "\\_") in (out / "compare.md").read_text("utf-8").split("**Not done yet.**")[1]
        go.touch()
        rest = other.stdout.read()
        assert other.wait() == 0
    assert waiting_cell == "mt_scdh-8-0"
    assert sorted([*done, waiting_cell, *run_here]) == sorted(names)  # each once
    assert not any(line in names for line in rest.splitlines())
    assert scores_by_file(out) == {name: scores for name, scores in scores_by_file(compared).items() if "-8-" in name}
    assert read_json(out / "compare.json")["missing"] == []  # by the other process, which ended last
