"""What a run writes while it trains: per-step and per-epoch CSV files, TensorBoard where it is installed, and lines
on the terminal.
"""

import csv
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scdh.errors import DataError
from scdh.runs.folder import RunFolder
from scdh.storage.files import replacing

LINE_GAP = 2.0  # seconds between lines: hundreds of short epochs would fill the screen


class RunLog:
    """Per-step and per-epoch figures; on resume, rows of epochs that will be run again are dropped."""

    def __init__(
        self, run: RunFolder | None, epochs_done: int, quiet: bool, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.run, self.quiet, self._clock = run, quiet, clock
        self._due = -math.inf
        self._waiting = ""  # the line of the newest epoch, if it was not printed
        self.board: Any = None
        if run is None:
            return
        run.path.mkdir(parents=True, exist_ok=True)
        for file in (run.steps, run.log):
            _keep_epochs(file, epochs_done)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self.board = SummaryWriter(str(run.tensorboard), purge_step=epochs_done + 1)

    def write_epoch(self, steps: Sequence[dict[str, float]], figures: dict[str, float]) -> None:
        if self.run is not None:
            _append(self.run.steps, steps)
            _append(self.run.log, [figures])
        if self.board is not None:
            for name, value in figures.items():
                self.board.add_scalar(name, value, int(figures["epoch"]))
            self.board.flush()
        if not self.quiet:
            hidden = ("epoch", "seconds", "items_per_second")
            shown = {key: value for key, value in figures.items() if key not in hidden and not math.isnan(value)}
            texts = [f"{key} {value:.4g}" for key, value in shown.items()]
            speed = f"{figures['items_per_second']:,.0f} items/s, {figures['seconds']:.1f} s"
            self._waiting = f"epoch {int(figures['epoch'])}  {'  '.join(texts)}  ({speed})"
            if self._clock() >= self._due:
                self._print_line()
                self._due = self._clock() + LINE_GAP

    def _print_line(self) -> None:
        print(self._waiting, file=sys.stderr, flush=True)
        self._waiting = ""

    def close(self) -> None:
        if self._waiting:
            self._print_line()
        if self.board is not None:
            self.board.close()


def _append(path: Path, rows: Sequence[dict[str, float]]) -> None:
    if not rows:
        return
    columns = list(rows[0])
    new = not path.exists()
    if not new:
        with open(path, newline="") as handle:
            columns = next(csv.reader(handle))
    with open(path, "a", newline="") as handle:
        writer = csv.DictWriter(handle, columns, extrasaction="ignore", restval="")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def _keep_epochs(path: Path, epochs_done: int) -> None:
    if not path.exists():
        return
    with open(path, newline="", encoding="utf-8", errors="replace") as handle:
        reader = csv.DictReader(handle)
        try:
            columns = list(reader.fieldnames or [])
            # A kill can cut the last line short: "1" of "12,…" must not pass for a row of epoch 1.
            rows = [r for r in reader if None not in r.values() and float(r["epoch"]) <= epochs_done]
        except (ValueError, KeyError, csv.Error):
            raise DataError(f"{str(path)!r} is not the log of a run or is damaged; delete it or restore it.") from None
    if not rows:
        path.unlink()
        return
    with replacing(path) as temporary, open(temporary, "w", newline="") as handle:
        writer = csv.DictWriter(handle, columns)
        writer.writeheader()
        writer.writerows(rows)
