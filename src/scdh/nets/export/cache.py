"""Exported networks on disk, so that a model is exported once per machine: one file each, in the user's cache folder.

OpenVINO trusts what it reads, so the folder must be private, and files of another user are not read. Every file has
checksums. A file that is damaged, of another version or of another network is exported again. If all files take more
than ``MOST_BYTES``, the least recently used are removed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdh.errors import CodesError
from scdh.nets.export.graph import Graph
from scdh.storage.cache_folder import mark_used, remove, remove_least_used, user_cache
from scdh.storage.private_folder import open_own
from scdh.storage.tensor_files import open_tensors, write_tensors

FORMAT = "scdh-export"
NAME, FOLDER_VARIABLE = "exports", "SCDH_EXPORT_DIR"
MOST_BYTES = 2 << 30
_KEY = "key"
_SUFFIX = ".scdh-export"


def entries_of(folder: Path) -> list[Path]:
    """The exported networks in a folder, which may have other contents."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


class CachedGraph:
    """The file of one graph in the cache."""

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
        mark_used(path)
        return graph

    def write(self, graph: Graph) -> None:
        """Store the graph if the folder allows it; otherwise every process exports it again."""
        path = self._path()
        if path is None:
            return
        try:
            path.unlink(missing_ok=True)  # a link is replaced, its target is not written to
            write_tensors(path, {"structure": graph.structure, "weights": graph.weights}, FORMAT, {_KEY: self._key})
            remove_least_used(entries_of(path.parent), path, MOST_BYTES)
        except OSError:
            return

    def remove(self) -> None:
        """Remove a graph that cannot be used."""
        path = self._path()
        if path is not None:
            remove(path)

    def _path(self) -> Path | None:
        folder = _private_folder()
        return None if folder is None else folder / f"{self._key}{_SUFFIX}"


def _private_folder() -> Path | None:
    return user_cache(NAME, FOLDER_VARIABLE, holds="Exported networks")
