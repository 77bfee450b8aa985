"""How kernels are compiled: once per machine, without the interpreter's lock, and never a stale one."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core.caching import FunctionCache


class _ForgivingCache(FunctionCache):
    """A cache that is full, read-only or damaged costs a compilation, and never the search."""

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

    numba itself notices only changes of the file that a kernel stands in, not of what it calls in other files; here the
    cache folder is named after the text of all of them. Where no folder can be written, each process compiles anew.
    """
    kernel = njit(nogil=True, error_model="numpy")(function)
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = str(_cache_folder())
        kernel._cache = _ForgivingCache(function)  # what cache=True does, with our cache
    except (RuntimeError, OSError, KeyError):
        pass  # no home and nowhere to write
    finally:
        config.CACHE_DIR = before
    return kernel


@cache
def _cache_folder() -> Path:
    text = hashlib.sha256()
    package = Path(__file__).parents[2]
    for file in sorted([*package.rglob("index/**/*.py"), *package.rglob("metrics/**/*.py")]):
        text.update(file.read_bytes())
    base = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "scdh" / f"kernels-{text.hexdigest()[:16]}"
