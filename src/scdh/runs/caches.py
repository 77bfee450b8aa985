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
    for name, holds, variable, limit in (
        (
            shared_features.NAME,
            "features of frozen networks",
            shared_features.FOLDER_VARIABLE,
            shared_features.MOST_BYTES,
        ),
        (exports.NAME, "networks exported for OpenVINO", exports.FOLDER_VARIABLE, exports.MOST_BYTES),
    ):
        folder = cache_place(name, variable)
        if folder is not None:
            entries = sorted(folder.iterdir()) if folder.is_dir() else []
            found.append(MachineCache(name, holds, folder, entries, limit))
    loops = loop_folders()
    if loops is not None:
        found.append(MachineCache("loops", "compiled search loops", *loops, None))
    return found
