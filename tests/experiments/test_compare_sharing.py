"""A comparison that is killed, resumed and shared by two processes comes out the same."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

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

train_and_score = CellRunner._train_and_score
def wait(self, cell, folder):
    print(cell.name, flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    train_and_score(self, cell, folder)
CellRunner._train_and_score = wait
main(sys.argv[2:])
"""


def line_after_the_split(output: IO[str]) -> str:
    """The first line that is not the counts of the split, which come before any work."""
    return next(line.strip() for line in iter(output.readline, "") if not line.startswith("Split:"))


@pytest.mark.slow
def test_killed_resumed_and_shared_it_comes_out_the_same(
    compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, command = tmp_path / "shared", ["compare", *EIGHT_BITS.split(), "--out", str(tmp_path / "shared")]
    with subprocess.Popen(
        [sys.executable, "-c", HANGS_IN_THE_SECOND_CELL, *command], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert line_after_the_split(killed.stdout) == "hangs"
        killed.send_signal(signal.SIGKILL)
    names = [name for name in CELLS if "-8-" in name]
    done = [name for name in names if (out / "cells" / name / "scores.json").exists()]
    assert done == ["scdh-8-0"]
    assert (out / "cells/mt_scdh-8-0/last.safetensors").exists()  # half way

    run_here: list[str] = []
    train_and_score = CellRunner._train_and_score

    def record(self: Any, cell: Any, folder: Path) -> None:
        run_here.append(cell.name)
        train_and_score(self, cell, folder)

    monkeypatch.setattr(CellRunner, "_train_and_score", record)
    go = tmp_path / "go"
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_IN_ITS_FIRST_CELL, str(go), *command], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        waiting_cell = line_after_the_split(other.stdout)
        code, text, notes = run(command)  # does all the rest meanwhile
        assert code == 0
        assert f"Not done yet: {waiting_cell}." in text
        assert f"Another process is still at {waiting_cell}" in notes
        assert read_json(out / "compare.json")["missing"] == [waiting_cell]
        assert waiting_cell in (out / "compare.html").read_text("utf-8")
        assert f"- **Not done yet.** {waiting_cell.replace('_', chr(92) + '_')}." in (out / "compare.md").read_text(
            "utf-8"
        )
        go.touch()
        rest = other.stdout.read()
        assert other.wait() == 0
    assert waiting_cell == "mt_scdh-8-0"
    assert sorted([*done, waiting_cell, *run_here]) == sorted(names)  # each once
    assert not any(line in names for line in rest.splitlines())
    assert scores_by_file(out) == {name: scores for name, scores in scores_by_file(compared).items() if "-8-" in name}
    assert read_json(out / "compare.json")["missing"] == []  # by the other process, which ended last
