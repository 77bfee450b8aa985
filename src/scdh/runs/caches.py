"""Caches on this machine: results that need not be computed again, and that may be removed at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scdh.index.kernels.compiled import loop_folders
from scdh.nets.export import cache as exports
from scdh.runs import shared_features
from scdh.storage.cache_folder import cache_place, remove, size_of


@dataclass(frozen=True)
class MachineCache:
    """One of the caches."""

    name: str
    holds: str
    folder: Path
    entries: Sequence[Path]
    most_bytes: int | None

    @property
    def bytes(self) -> int:
        """Size of all entries."""
        return sum(map(size_of, self.entries))

    def clear(self) -> None:
        """Remove all entries."""
        for entry in self.entries:
            remove(entry)


def machine_caches() -> list[MachineCache]:
    """The caches that are not switched off."""
    found = []
    kinds = ((shared_features, "features of frozen networks"), (exports, "networks exported for OpenVINO"))
    for kind, holds in kinds:
        folder = cache_place(kind.NAME, kind.FOLDER_VARIABLE)
        if folder is not None:
            entries = kind.entries_of(folder) if folder.is_dir() else []
            found.append(MachineCache(kind.NAME, holds, folder, entries, kind.MOST_BYTES))
    loops = loop_folders()
    if loops is not None:
        found.append(MachineCache("loops", "compiled search loops", *loops, None))
    return found
