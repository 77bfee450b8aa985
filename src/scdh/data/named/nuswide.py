"""NUS-WIDE from its official lists: the images that carry at least one of the 21 most frequent concepts.

Flickr users have deleted photos over the years, and there is no official download. The rows are the listed images whose
file exists, so copies with different files have different fingerprints.
"""

import os
from pathlib import Path, PureWindowsPath

import numpy as np

from scdh.data.images.folder import FolderSource
from scdh.errors import DataError
from scdh.label_arrays import is_labelled

CONCEPTS = 21
IMAGE_FOLDERS = ("Flickr", "images")


def open_nuswide(root: Path) -> FolderSource:
    """``root`` has ImageList/Imagelist.txt, Groundtruth/AllLabels/Labels_*.txt, and photos in Flickr/ or images/."""
    root = next((r for r in (root, root / "nuswide21", root / "NUS-WIDE") if (r / "ImageList").is_dir()), root)
    listed = [PureWindowsPath(line).as_posix() for line in _lines(root / "ImageList" / "Imagelist.txt")]
    names, hot = _frequent_concepts(root / "Groundtruth" / "AllLabels", len(listed))
    bases = [folder for folder in IMAGE_FOLDERS if (root / folder).is_dir()]
    if not bases:
        raise DataError(
            f"{root} holds neither {' nor '.join(f'{f}/' for f in IMAGE_FOLDERS)} with the NUS-WIDE photos."
        )
    rows, paths = [], []
    for row in np.flatnonzero(is_labelled(hot)):
        path = _find_photo(root, bases, listed[row])
        if path is not None:
            rows.append(row)
            paths.append(path)
    if not rows:
        raise DataError(f"None of the {len(listed)} listed NUS-WIDE photos is below {root / bases[0]}.")
    return FolderSource(root, paths, hot[rows], names, name="nuswide21")


def _frequent_concepts(folder: Path, n: int) -> tuple[list[str], np.ndarray]:
    """The 21 names in alphabetical order, and their multi-hot labels uint8 [n, 21]; frequency counts all n images."""
    columns = {}
    for file in sorted(folder.glob("Labels_*.txt")) if folder.is_dir() else []:
        flags = _lines(file)
        if len(flags) != n or not set(flags) <= {"0", "1"}:
            raise DataError(f"{file} has {len(flags)} lines; expected one 0 or 1 for each of the {n} images.")
        columns[file.stem.removeprefix("Labels_")] = np.array(flags) == "1"
    if len(columns) < CONCEPTS:
        raise DataError(f"{folder} holds {len(columns)} files Labels_<concept>.txt; expected NUS-WIDE's 81.")
    frequent = sorted(columns, key=lambda name: (-int(columns[name].sum()), name))[:CONCEPTS]
    names = sorted(frequent)
    return names, np.stack([columns[name] for name in names], axis=1).astype(np.uint8)


def _find_photo(root: Path, bases: list[str], listed: str) -> str | None:
    """The path of a listed photo; some copies have folders of concepts, others one folder for all."""
    for base in bases:
        for tail in (listed, os.path.basename(listed)):
            if (root / base / tail).is_file():
                return os.path.join(base, tail)
    return None


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        raise DataError(f"NUS-WIDE lacks the file {file}; its lists and photos must be obtained by hand.")
    return [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
