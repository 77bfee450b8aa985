"""Threads for kernels that run without the interpreter's lock.

numba has its own parallel loops, but its default thread pool ends the process when two Python threads use it at once,
which any web server does; a pool of Python's own threads costs some 20 µs more per call and is safe.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scdh.errors import ConfigError

T = TypeVar("T")

_chosen: int | None = None
_pool: ThreadPoolExecutor | None = None


def thread_count() -> int:
    """What ``set_threads`` said, else the environment's SCDH_THREADS, else the cores this process may use."""
    if _chosen is not None:
        return _chosen
    asked = os.environ.get("SCDH_THREADS")
    if asked is not None:
        if not asked.isdecimal() or int(asked) < 1:
            raise ConfigError(f"SCDH_THREADS must be a whole number of at least 1, got {asked!r}.")
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(count: int | None) -> None:
    """How many threads search and evaluation use in this process; None: as many as there are cores."""
    global _chosen
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ConfigError(f"The number of threads must be a whole number of at least 1, got {count!r}.")
    _chosen = count


def run(tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results of the tasks in their order, as they become ready; only a few tasks are started ahead."""
    global _pool
    todo, threads = list(tasks), thread_count()
    if threads == 1 or len(todo) <= 1:
        yield from (task() for task in todo)
        return
    # Another thread may be using the pool of another size, so a pool is left to finish and not shut down.
    if _pool is None or _pool._max_workers != threads:
        _pool = ThreadPoolExecutor(threads, thread_name_prefix="scdh")
    pool = _pool
    if len(todo) <= threads:
        # The first task is done here, while the other threads wake up.
        others = [pool.submit(task) for task in todo[1:]]
        yield todo[0]()
        yield from (other.result() for other in others)
        return
    started = [pool.submit(task) for task in todo[: 2 * threads]]
    try:
        for place in range(len(todo)):
            result = started[place].result()
            started[place] = None  # type: ignore[call-overload]  # what was handed out need not be kept
            if len(started) < len(todo):
                started.append(pool.submit(todo[len(started)]))
            yield result
    finally:
        for future in started:
            if future is not None:
                future.cancel()


def _forget_pool() -> None:
    """A forked child has the pool object, but none of its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
