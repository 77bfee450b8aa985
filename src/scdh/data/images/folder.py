"""Folders of images: each sub-folder is a class, optionally below train, val and test."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from scdh.data.images.decode import EXTENSIONS, decode
from scdh.data.source import Source, file_stamps
from scdh.data.tables.columns import SPLIT_WORDS, UNLABELLED
from scdh.errors import DataError
from scdh.label_arrays import NO_LABEL

PARTS = frozenset(("train", "val", "test", UNLABELLED))


class FolderSource(Source):
    """Image files below ``root``; ``paths`` are relative to it."""

    kind: Literal["images", "features"] = "images"

    def __init__(
        self,
        root: Path,
        paths: list[str],
        labels: np.ndarray,
        label_names: list[str],
        *,
        name: str,
        split: np.ndarray | None = None,
    ) -> None:
        self.name = name
        self.labels, self.label_names, self.split = labels, label_names, split
        self._root, self._paths = root, paths

    def image(self, row: int, at_least: int | None = None) -> Image.Image:
        path = self._root / self._paths[row]
        return decode(path, str(path), at_least)

    def item_name(self, row: int) -> str:
        return str(self._root / self._paths[row])

    def stable_names(self) -> Iterable[str]:
        return (path.replace(os.sep, "/") for path in self._paths)

    def content_samples(self) -> Iterable[bytes]:
        return file_stamps(self._root / path for path in self._paths)


def open_folder(root: Path, *, name: str | None = None, parts: frozenset[str] | None = None) -> FolderSource:
    """``parts`` limits a divided folder to some of its parts ("train", "val").

    A folder of images with no sub-folders is taken as unlabelled; so is a sub-folder ``unlabelled``, in the place
    of a class or beside train, val and test.
    """
    name = name or root.name or str(root)
    folders = _sub_folders(root)
    divided = "train" in folders and all(_word(folder) in PARTS for folder in folders)
    found: list[tuple[str, str | None, str]] = []
    if divided:
        for folder in folders:
            part = _word(folder)
            if part == UNLABELLED:
                found += [(path, None, part) for path in images_below(root, folder)]
            elif parts is None or part in parts:
                found += [(path, label, part) for path, label in _classes(root, folder)]
    else:
        found = [(path, label, "") for path, label in _classes(root, "")]
    if not found:
        raise DataError(f"The folder {root} holds no images ({', '.join(sorted(EXTENSIONS))}).")
    names = sorted({label for _, label, _ in found if label is not None})
    place = {label: i for i, label in enumerate(names)}
    labels = np.array([NO_LABEL if label is None else place[label] for _, label, _ in found], dtype=np.int64)
    split = np.array([part for _, _, part in found]) if divided else None
    return FolderSource(root, [path for path, _, _ in found], labels, names, name=name, split=split)


def images_below(root: Path, folder: str) -> list[str]:
    """Image files at any depth below root/folder, sorted, relative to root; hidden ones are left out."""
    found = []
    for where, inner, files in os.walk(root / folder):
        inner[:] = [d for d in inner if not d.startswith(".")]
        base = os.path.relpath(where, root)
        found += [os.path.normpath(os.path.join(base, file)) for file in files if is_image(file)]
    return sorted(found)


def is_image(file: str) -> bool:
    return not file.startswith(".") and os.path.splitext(file)[1].lower() in EXTENSIONS


def _classes(root: Path, folder: str) -> list[tuple[str, str | None]]:
    """(path, class) of every image below root/folder; class None for unlabelled ones."""
    base = root / folder
    loose = [os.path.join(folder, entry.name) for entry in os.scandir(base) if is_image(entry.name)]
    classes = _sub_folders(base)
    if loose and classes:
        raise DataError(
            f"{len(loose)} images lie in {base} itself beside its class folders, for example "
            f"{os.path.basename(min(loose))!r}; put images without a label into a folder 'unlabelled'."
        )
    found: list[tuple[str, str | None]] = [(path, None) for path in sorted(loose)]
    for label in classes:
        paths = images_below(root, os.path.join(folder, label))
        free = _word(label) == UNLABELLED
        if not paths and not free:
            raise DataError(f"The class folder {base / label} holds no images; fill it or remove it.")
        found += [(path, None if free else label) for path in paths]
    return found


def _word(folder: str) -> str:
    """What a folder's name says of a part: "Valid" is val, "_unlabeled" is unlabelled."""
    return SPLIT_WORDS.get(folder.lower(), folder.lower())


def _sub_folders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
