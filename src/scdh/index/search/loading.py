"""Load kernels, or compile them the first time on a machine, while numpy answers.

Compiling one takes seconds, loading it from the cache half a second. It is done in a thread of its own. A search waits
for it no longer than numpy would take for the same search, and at most a second; then numpy begins to answer, and the
kernel takes over as soon as it is loaded.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Lock, Thread, current_thread

Kernel = tuple[str, str]  # the name of a kernel, and the type of the words it is compiled for

_loads: dict[Kernel, Future[None]] = {}
_lock = Lock()
# Kernels are loaded one after another: two threads that import numba at once may each wait for a module of the other,
# and Python then gives one of them a module that is not complete, which ends in an ImportError.
_one_at_a_time = Lock()
_THREAD = "scdh-load"


class _NoThreadError(Exception):
    """Raised in threads that wait for a load that could not begin."""


def is_loaded(kernel: Kernel) -> bool:
    """Whether a call of this kernel would not wait for a compiler."""
    load = _loads.get(kernel)
    return load is not None and load.done() and load.exception() is None


def load(kernel: Kernel, rehearse: Callable[[], object], patience: float | None) -> bool:
    """Begin to load a kernel unless that has begun, and return whether it is loaded.

    Args:
        kernel: what is loaded.
        rehearse: calls it on very little work, so that it is compiled for these types.
        patience: seconds to wait for it; None: as long as it takes.

    Raises:
        Exception: what loading raised, in every call.
    """
    with _lock:
        known = kernel in _loads
        future = _loads.setdefault(kernel, Future())
    if not known:
        try:
            # Not a daemon: to end the process while the compiler runs would crash it, so the end waits for it.
            Thread(target=_run, args=(rehearse, future), name=_THREAD).start()
        except RuntimeError:  # the system has no room for a thread now; a later search tries again
            del _loads[kernel]
            future.set_exception(_NoThreadError())
            return False
    if not future.done():
        wait([future], patience)
    if not future.done() or isinstance(future.exception(), _NoThreadError):
        return False
    future.result()
    return True


def wait_for_loads() -> None:
    """Wait until every kernel that is being loaded is there."""
    wait(list(_loads.values()))


def _run(rehearse: Callable[[], object], future: Future[None]) -> None:
    try:
        with _one_at_a_time:
            rehearse()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)


def _before_fork() -> None:
    """A process that is forked while the compiler runs would find the lock held forever."""
    if current_thread().name != _THREAD:
        wait_for_loads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
