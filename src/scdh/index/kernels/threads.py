"""Threads for kernels that run without the interpreter's lock.

numba has its own parallel loops, but its default thread pool ends the process when two Python threads use it at once,
which any web server does; a pool of Python's own threads costs some 20 µs more per call and is safe.
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


def set_threads(number: int | None) -> None:
    """How many threads search and evaluation use in this process; None: as many as there are cores."""
    global _chosen
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
        raise ConfigError(f"The number of threads must be a whole number of at least 1, got {number!r}.")
    _chosen = number


def run(tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results of the tasks in their order.

    The calling thread does tasks too: waiting for others, it would be woken for each result and take a core from them.
    """
    todo = list(tasks)
    threads = min(thread_count(), len(todo)) if len(todo) > 1 else 1
    if threads == 1:
        yield from (task() for task in todo)
        return
    results: list[Future[T]] = [Future() for _ in todo]
    following = count()  # its next() is one step that no other thread can divide
    stopped = False

    def do(place: int) -> None:
        try:
            results[place].set_result(todo[place]())
        except BaseException as error:
            results[place].set_exception(error)

    def work() -> None:
        while not stopped and (place := next(following)) < len(todo):
            do(place)

    pool = _pool_of(threads - 1)
    for _ in range(threads - 1):
        pool.submit(work)
    try:
        for place in range(len(todo)):
            while not results[place].done() and (other := next(following)) < len(todo):
                do(other)
            yield results[place].result()
            results[place] = Future()  # what was handed out need not be kept
    finally:
        stopped = True


def _pool_of(size: int) -> ThreadPoolExecutor:
    global _pool
    # Another thread may be using the pool of another size, so that one is left to finish and not shut down.
    if _pool is None or _pool._max_workers != size:
        _pool = ThreadPoolExecutor(size, thread_name_prefix="scdh")
    return _pool


def _forget_pool() -> None:
    """A forked child has the pool object, but none of its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
