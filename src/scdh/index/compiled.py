"""How kernels are compiled: once per machine, without the interpreter's lock, and never a stale one."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import config, njit

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: Callable[..., Any]) -> Any:
    """numba's ``njit`` with a cache on disk, so that only the first use on a machine waits for the compiler.

    numba itself notices only changes of the file that a kernel stands in, not of what it calls in other files; here the
    cache folder is named after the text of all of them. Where no folder can be written, each process compiles anew.
    """
    before, config.CACHE_DIR = config.CACHE_DIR, str(_cache_folder())
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except (RuntimeError, OSError):
        return njit(**_OPTIONS)(function)
    finally:
        config.CACHE_DIR = before


@cache
def _cache_folder() -> Path:
    text = hashlib.sha256()
    package = Path(__file__).parents[1]
    for file in sorted([*package.glob("index/*.py"), *package.glob("metrics/*.py")]):
        text.update(file.read_bytes())
    base = config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "scdh" / f"kernels-{text.hexdigest()[:16]}"
