"""Compile kernels: once per machine, without the interpreter's lock, and again after a change."""

import importlib.util
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core.caching import FunctionCache

from scdh.index.kernels.sources import source_digest
from scdh.storage.private_folder import NotPrivateError, make_private

_has_warned = False
_PREFIX = "kernels-"


def _defer_scipy() -> None:
    """Import what numba needs for arrays without scipy, if scipy is installed.

    ``numba.np.arraymath`` imports ``scipy.linalg`` only to find out whether BLAS is there, which takes longer than to
    load our kernels. Functions that use BLAS check again, so nothing else changes.
    """
    if importlib.util.find_spec("scipy") is None:
        return
    from numba.np import linalg

    check = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = check


_defer_scipy()


class _OptionalCache(FunctionCache):
    """A cache that is full, read-only or damaged costs a compilation; the search still works.

    numba unpickles what is in it, and pickles can run anything: its folder must be private.
    """

    def load_overload(self, *args: Any) -> Any:
        try:
            return super().load_overload(*args)
        except Exception:
            return None

    def save_overload(self, *args: Any) -> None:
        try:
            super().save_overload(*args)
        except Exception:
            with suppress(Exception):  # a damaged index is replaced, if the folder can be written
                self.flush()
                super().save_overload(*args)


def inlined(function: Callable[..., Any]) -> Any:
    """As ``compiled``, for small functions that only kernels call: a call with many arrays costs some 30 ns."""
    return njit(nogil=True, error_model="numpy", forceinline=True)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """numba's ``njit`` with a cache on disk, so that only the first use on a machine waits for the compiler.

    numba itself notices only changes of the file that defines the kernel, not of functions that it calls in other
    files, so the name of the cache folder is a digest of all these files. Where no folder can be written, others could
    write to it, or the source cannot be read, each process compiles again.
    """
    kernel = njit(nogil=True, error_model="numpy")(function)
    cache_dir = config.CACHE_DIR
    try:
        folder = _cache_folder(function)
        make_private(folder)
        config.CACHE_DIR = str(folder)
        kernels = _OptionalCache(function)
        # If the folder cannot be written, numba chooses another one, such as __pycache__, without a digest in its name.
        if Path(kernels.cache_path).is_relative_to(folder):
            kernel._cache = kernels  # as cache=True does, with our class
    except NotPrivateError as error:
        _warn_once(str(error))
    except (RuntimeError, OSError, KeyError, SyntaxError):
        pass
    finally:
        config.CACHE_DIR = cache_dir
    return kernel


def _warn_once(problem: str) -> None:
    """For the first kernel; the folders of all others have the same problem."""
    global _has_warned
    if _has_warned:
        return
    _has_warned = True
    warnings.warn(
        f"Compiled search loops are not kept: {problem}, so another user could run code as you; set NUMBA_CACHE_DIR "
        "or XDG_CACHE_HOME to a folder of your own.",
        stacklevel=2,
    )


def loop_folders() -> tuple[Path, list[Path]] | None:
    """The folder of all compiled loops, and its entries, of all versions; None without a home folder."""
    try:
        base = _base_folder()
        return base, sorted(base.glob(f"{_PREFIX}*"))
    except (RuntimeError, OSError):
        return None


def _base_folder() -> Path:
    base = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.path.abspath(base)) / "scdh"


def _cache_folder(function: Callable[..., Any]) -> Path:
    digest = source_digest(function.__module__, Path(function.__code__.co_filename))
    return _base_folder() / f"{_PREFIX}{digest[:16]}"
