"""The one progress bar: how many of how many, the rate, the time left."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def progress_bar(unit: str = "items") -> Any:
    """A bar on standard error; silent if that is not a terminal (a pipe, a log file)."""
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
        TextColumn("{task.description}"),
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


@contextmanager
def count_progress(
    total: int, description: str, unit: str = "items", *, visible: bool = True
) -> Iterator[Callable[[int], None]]:
    """Yield a function that moves the bar on by a number of units; without a bar if not ``visible``."""
    if not visible:
        yield lambda _: None
        return
    with progress_bar(unit) as bar:
        task = bar.add_task(description, total=total, rate="–")

        def advance(count: int) -> None:
            bar.advance(task, count)
            speed = bar.tasks[task].speed
            bar.update(task, rate="–" if speed is None else f"{speed:,.0f}")

        yield advance


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
