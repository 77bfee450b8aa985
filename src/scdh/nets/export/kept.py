"""Exported networks on disk, so that a model is exported once on a machine: one file each, below the user's caches.

OpenVINO trusts what it reads, so the folder must be private, and a file that another user owns is not read. Every file
has checksums; one that is damaged, of another version or foreign is made again. The least recently used go first when
all take more than ``MOST_BYTES``.
"""

import hashlib
import json
import os
import stat
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scdh.errors import CodesError
from scdh.nets.export.graph import Graph
from scdh.private_folder import NotPrivateError, make_private
from scdh.tensor_files import open_tensors, write_tensors

FORMAT = "scdh-export"
FOLDER_VARIABLE = "SCDH_EXPORT_DIR"
MOST_BYTES = 2 << 30
_KEY = "key"
_SUFFIX = ".scdh-export"


class KeptGraph:
    """The place of one graph.

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
            _check_own(path)
            with open_tensors(path, FORMAT) as stored:
                if stored.text(_KEY) != self._key:
                    raise CodesError(f"{path} is of another network.")
                graph = Graph(stored.read("structure"), stored.read("weights"))
        except (CodesError, OSError):
            return None
        with suppress(OSError):
            os.utime(path)  # used now
        return graph

    def write(self, graph: Graph) -> None:
        """Keep the graph, where that can be done; without it, every process exports anew."""
        path = self._path()
        if path is None:
            return
        try:
            with suppress(FileNotFoundError):  # a link or a file of somebody else is replaced, never written through
                if not _is_own(path):
                    path.unlink()
            write_tensors(path, {"structure": graph.structure, "weights": graph.weights}, FORMAT, {_KEY: self._key})
            _remove_oldest(path)
        except OSError:
            return

    def remove(self) -> None:
        """Forget a graph that cannot be used."""
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
                f"Exported networks are not kept: {error}, and whoever can write there could change your codes; name "
                f"a folder of your own in {FOLDER_VARIABLE}.",
                stacklevel=2,
            )
    except (OSError, RuntimeError):  # read-only, or no home
        pass
    return None


def _is_own(path: Path) -> bool:
    """Whether it is a file, no link, that this user owns; that nobody else can write to it, the folder sees to."""
    found = os.lstat(path)
    return stat.S_ISREG(found.st_mode) and (os.name == "nt" or found.st_uid == os.geteuid())


def _check_own(path: Path) -> None:
    if not _is_own(path):
        raise CodesError(f"{path} is not a file of this user alone.")


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
