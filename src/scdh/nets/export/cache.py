"""Exported networks on disk, so that a model is exported once per machine: one file each, in the user's cache folder.

OpenVINO trusts what it reads, so the folder must be private, and files of another user are not read. Every file has
checksums. A file that is damaged, of another version or of another network is exported again. If all files take more
than ``MOST_BYTES``, the least recently used are removed.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scdh.errors import CodesError
from scdh.nets.export.graph import Graph
from scdh.storage.private_folder import NotPrivateError, make_private, open_own
from scdh.storage.tensor_files import open_tensors, write_tensors

FORMAT = "scdh-export"
FOLDER_VARIABLE = "SCDH_EXPORT_DIR"
MOST_BYTES = 2 << 30
_KEY = "key"
_SUFFIX = ".scdh-export"


class CachedGraph:
    """The file of one graph in the cache.

    Args:
        about: all that decides the graph, ready for JSON: weights, preprocessing, versions.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]

    def exists(self) -> bool:
        """Whether there is a file; it may still turn out to be damaged."""
        path = self._path()
        return path is not None and path.exists()

    def read(self) -> Graph | None:
        """The graph; None if there is none that can be used."""
        path = self._path()
        if path is None or not path.exists():
            return None
        try:
            with open_tensors(path, FORMAT, opener=open_own) as stored:
                if stored.text(_KEY) != self._key:
                    raise CodesError(f"{path} belongs to another network.")
                graph = Graph(stored.read("structure"), stored.read("weights"))
        except (CodesError, OSError):
            return None
        with suppress(OSError):
            os.utime(path)  # the time of the last use
        return graph

    def write(self, graph: Graph) -> None:
        """Store the graph if the folder allows it; otherwise every process exports it again."""
        path = self._path()
        if path is None:
            return
        try:
            path.unlink(missing_ok=True)  # a link is replaced, its target is not written to
            write_tensors(path, {"structure": graph.structure, "weights": graph.weights}, FORMAT, {_KEY: self._key})
            _remove_oldest(path)
        except OSError:
            return

    def remove(self) -> None:
        """Remove a graph that cannot be used."""
        path = self._path()
        if path is not None:
            with suppress(OSError):
                path.unlink()

    def _path(self) -> Path | None:
        folder = _private_folder()
        return None if folder is None else folder / f"{self._key}{_SUFFIX}"


_has_warned = False


def _private_folder() -> Path | None:
    global _has_warned
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(os.path.abspath(os.environ.get(FOLDER_VARIABLE) or Path(base, "scdh", "exports")))
        make_private(folder)
        return folder
    except NotPrivateError as error:
        if not _has_warned:
            _has_warned = True
            warnings.warn(
                f"Exported networks are not cached: {error}, so another user could change your codes; set "
                f"{FOLDER_VARIABLE} to a folder of your own.",
                stacklevel=2,
            )
    except (OSError, RuntimeError):  # read-only, or no home
        pass
    return None


def _remove_oldest(newest: Path) -> None:
    files = sorted(newest.parent.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime, reverse=True)
    total = newest.stat().st_size
    for file in files:
        if file == newest:
            continue
        total += file.stat().st_size
        if total > MOST_BYTES:
            with suppress(OSError):
                file.unlink()
