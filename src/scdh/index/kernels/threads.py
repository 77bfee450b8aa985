"""Threads for kernels that run without the interpreter's lock.

numba has parallel loops, but its default thread pool ends the process when two Python threads use it at once, which
any web server does; a pool of Python threads costs some 20 µs more per call and is safe.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from scdh.errors import ConfigError

T = TypeVar("T")

_chosen: int | None = None
_pool: ThreadPoolExecutor | None = None


def usable_cores() -> int:
    """The cores that this process may use; a container may have fewer than its machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count() -> int:
    """The number of threads of ``set_threads``, else of SCDH_THREADS, else the cores that this process may use."""
    if _chosen is not None:
        return _chosen
    variable = os.environ.get("SCDH_THREADS")
    if variable is not None:
        if not variable.isdecimal() or int(variable) < 1:
            raise ConfigError(f"SCDH_THREADS must be a whole number of at least 1, got {variable!r}.")
        return int(variable)
    return usable_cores()


def set_threads(number: int | None) -> None:
    """Set the number of threads that search and evaluation use in this process.

    Args:
        number: at least 1; None for the default of ``thread_count``.

    Raises:
        ConfigError: if it is not a whole number of at least 1.
    """
    global _chosen
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise ConfigError(f"The number of threads must be a whole number of at least 1, got {number!r}.")
    _chosen = number


def run(tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results of the tasks in their order.

    The calling thread runs tasks too: if it only waited, each result would wake it and interrupt another thread.
    """
    tasks = list(tasks)
    threads = min(thread_count(), len(tasks)) if len(tasks) > 1 else 1
    if threads == 1:
        yield from (task() for task in tasks)
        return
    results: list[Future[T]] = [Future() for _ in tasks]
    following = count()  # calling next() on it is atomic
    stopped = False

    def do(place: int) -> None:
        try:
            results[place].set_result(tasks[place]())
        except BaseException as error:
            results[place].set_exception(error)

    def work() -> None:
        while not stopped and (place := next(following)) < len(tasks):
            do(place)

    pool = _pool_for(threads - 1)
    for _ in range(threads - 1):
        pool.submit(work)
    try:
        for place in range(len(tasks)):
            while not results[place].done() and (other := next(following)) < len(tasks):
                do(other)
            yield results[place].result()
            results[place] = Future()  # frees the result
    finally:
        stopped = True


def _pool_for(size: int) -> ThreadPoolExecutor:
    global _pool
    # Another thread may be using a pool of another size, so that one is not shut down.
    if _pool is None or _pool._max_workers != size:
        _pool = ThreadPoolExecutor(size, thread_name_prefix="scdh")
    return _pool


def _drop_pool() -> None:
    """A forked process has the pool object, but none of its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_pool)
