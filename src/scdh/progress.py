"""Progress of long work: a bar on a terminal, occasional lines in a pipe or a log file."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_is_hidden = ContextVar("is_hidden", default=False)
FIRST_LINE = 10.0  # seconds; work that is done before the first line prints none
FIRST_GAP = 30.0
LONGEST_GAP = 300.0


def progress_bar(unit: str = "items") -> Any:
    """A bar on standard error; disabled if that is not a terminal (a pipe, a log file)."""
    # rich takes longer to load than a small search takes to run, so it is imported only when a bar may be shown.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),  # a folder may be called [red]
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{{task.fields[rate]}} {unit}/s"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


class ProgressLines:
    """Lines such as "encoding: 12,800 of 60,000, 240 items/s, 3 min left", at growing intervals."""

    def __init__(
        self,
        total: int,
        description: str,
        unit: str = "items",
        *,
        is_bound: bool = False,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] | None = None,
    ) -> None:
        self.total = total
        self.description = description
        self.unit = unit
        self.most = "at most " if is_bound else ""
        self.clock = clock
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self.done = 0
        self.started = clock()
        self.gap = FIRST_GAP
        self.due = self.started + FIRST_LINE

    def advance(self, count: int, total: int | None = None) -> None:
        """Advance by ``count`` units; ``total`` replaces an expected total that was not exact."""
        self.done += count
        self.total = self.total if total is None else total
        now = self.clock()
        if now < self.due or (self.total and self.done >= self.total):  # the next message shows that it is done
            return
        self.write(self._line(now - self.started))
        self.due, self.gap = now + self.gap, min(2 * self.gap, LONGEST_GAP)

    def _line(self, seconds: float) -> str:
        rate = self.done / max(seconds, 1e-9)
        speed = f"{rate:,.0f} {self.unit}/s" if rate >= 10 else f"{rate:.2g} {self.unit}/s"
        total = f"{self.total:,}"
        if 0 < rate < 0.5:  # if there are few long units, the time of each is more useful
            speed, total = f"{_duration(1 / rate)} each", f"{total} {self.unit}"
        if not self.total:
            return f"{self.description}: {self.done:,} {self.unit}, {speed}"
        left = f", {self.most}{_duration((self.total - self.done) / rate)} left" if self.done else ""
        return f"{self.description}: {self.done:,} of {self.most}{total}, {speed}{left}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def count_progress(
    total: int, description: str, unit: str = "items", *, visible: bool = True, is_bound: bool = False
) -> Iterator[Callable[..., None]]:
    """Yield ``advance(count, total=None)``, as :meth:`ProgressLines.advance`; nothing is shown if not ``visible``."""
    if not visible or _is_hidden.get():
        yield lambda *_, **__: None
        return
    bar = progress_bar(unit) if _may_be_terminal() else None
    if bar is None or bar.disable:
        yield ProgressLines(total, description, unit, is_bound=is_bound).advance
        return
    with bar:
        task = bar.add_task(f"{description}, at most" if is_bound else description, total=total, rate="–")

        def advance(count: int, total: int | None = None) -> None:
            if total is not None:
                bar.update(task, total=total)
            bar.advance(task, count)
            speed = bar.tasks[task].speed
            bar.update(task, rate="–" if speed is None else f"{speed:,.0f}")

        yield advance


@contextmanager
def hidden_progress() -> Iterator[None]:
    """Hide all progress in the ``with`` block: it is part of longer work with its own progress."""
    token = _is_hidden.set(True)
    try:
        yield
    finally:
        _is_hidden.reset(token)


def _may_be_terminal() -> bool:
    """A notebook is not a terminal but shows a bar; users can force one."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules or bool(os.environ.get("FORCE_COLOR"))


def track(
    items: Iterable[T],
    total: int,
    description: str,
    unit: str = "items",
    size: Callable[[T], int] | None = None,
) -> Iterator[T]:
    """Iterate with a bar; ``size(item)`` says how many units an item is (default 1)."""
    with count_progress(total, description, unit) as advance:
        for item in items:
            yield item
            advance(1 if size is None else size(item))
