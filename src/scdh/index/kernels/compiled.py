"""How kernels are compiled: once per machine, without the interpreter's lock, and never reused after a change."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core.caching import FunctionCache

from scdh.index.kernels.sources import source_digest


class _OptionalCache(FunctionCache):
    """A cache that is full, read-only or damaged costs a compilation; the search still works."""

    def load_overload(self, *args: Any) -> Any:
        try:
            return super().load_overload(*args)
        except Exception:
            return None

    def save_overload(self, *args: Any) -> None:
        with suppress(Exception):
            super().save_overload(*args)


def compiled(function: Callable[..., Any]) -> Any:
    """numba's ``njit`` with a cache on disk, so that only the first use on a machine waits for the compiler.

    numba itself notices only changes of the file that defines the kernel, not of functions that it calls in other
    files, so the name of the cache folder is a digest of all these files. Where no folder can be written, or the source
    cannot be read, each process compiles anew.
    """
    kernel = njit(nogil=True, error_model="numpy")(function)
    cache_dir = config.CACHE_DIR
    try:
        folder = _cache_folder(function)
        config.CACHE_DIR = str(folder)
        cache = _OptionalCache(function)
        # If the folder cannot be written, numba chooses another one, such as __pycache__, without a digest in its name.
        if Path(cache.cache_path).is_relative_to(folder):
            kernel._cache = cache  # as cache=True does, with our class
    except (RuntimeError, OSError, KeyError, SyntaxError):
        pass
    finally:
        config.CACHE_DIR = cache_dir
    return kernel


def _cache_folder(function: Callable[..., Any]) -> Path:
    base = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = source_digest(function.__module__, Path(function.__code__.co_filename))
    return Path(base) / "scdh" / f"kernels-{digest[:16]}"
