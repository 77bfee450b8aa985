"""How rivals are timed: they take turns in one process, so that other work on the machine slows down both.

Each row ends in a ratio of medians.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

Row = dict[str, float | int | str]

# Idle threads of OpenMP (some milliseconds) and of OpenBLAS (2^26 ticks, some 30 ms) spin after a call, and would
# be counted as time of the next call.
_PAUSE = 0.1


@dataclass
class Table:
    """One table of the report; ``about`` is the text above it."""

    heading: str
    about: str
    rows: list[Row]


def print_row(section: str, row: Row) -> None:
    """Show a row on the screen as soon as it is measured."""
    text = ", ".join(f"{name} {cell(value)}" for name, value in row.items())
    print(f"[{section}] {text}", file=sys.stderr, flush=True)


def cell(value: float | int | str) -> str:
    """Three digits of a measured value, all digits of a count."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def take_turns(
    works: Mapping[str, Callable[[int], object]],
    *,
    most: int = 25,
    least: int = 3,
    seconds: float = 2.0,
    window: float = 0.0,
    pause: float = _PAUSE,
) -> dict[str, float]:
    """Median seconds of each work, a function of the number of its turn.

    Args:
        works: by name; each has been called before, so that nothing is loaded or compiled while it is timed.
        most, least: numbers of turns; after ``seconds`` no more than ``least`` turns are begun.
        seconds: see above.
        window: a work that takes less than this is repeated within its turn until the time is over, and the mean
            counts: after the pause a processor needs some milliseconds to reach its speed.
        pause: seconds between works; works that all run on the same threads need none.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    begun = time.perf_counter()
    for turn in range(most):
        if turn >= least and time.perf_counter() - begun > seconds:
            break
        for name, work in works.items():
            time.sleep(pause)
            calls, start = 0, time.perf_counter()
            while calls == 0 or time.perf_counter() - start < window:
                work(turn)
                calls += 1
            times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(spent) for name, spent in times.items()}


def one_at_a_time(works: Mapping[str, Callable[[int], object]], queries: Iterable[int]) -> dict[str, float]:
    """Median seconds of one call for one query, over all queries; each work goes through them in one go, as a
    server would, after a few calls that do not count."""
    medians, queries = {}, list(queries)
    for name, work in works.items():
        time.sleep(_PAUSE)
        for query in queries[:5]:
            work(query)
        spent = []
        for query in queries:
            start = time.perf_counter()
            work(query)
            spent.append(time.perf_counter() - start)
        medians[name] = statistics.median(spent)
    return medians
