"""Folders of images: each sub-folder is a class, optionally below train, val, test and database."""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from scdh.data.images.decode import decode
from scdh.data.images.formats import EXTENSIONS, describe_skipped, is_image_name
from scdh.data.source import Source, file_stamps
from scdh.data.split_words import DATABASE, TRAIN, UNLABELLED, UNMARKED, is_part, part_name, part_of_name
from scdh.errors import DataError
from scdh.label_arrays import NO_LABEL

LEFTOVERS = ("__MACOSX",)  # macOS adds it to archives


class FolderSource(Source):
    """Image files below a folder."""

    kind: Literal["images", "features"] = "images"
    has_paths = True
    label_advice = "give every class a folder of its own"

    def __init__(
        self,
        root: Path,
        paths: list[str],
        labels: np.ndarray,
        label_names: list[str],
        *,
        name: str,
        split: np.ndarray | None = None,
        split_origin: str = Source.split_origin,
    ) -> None:
        self.name = name
        self.labels = labels
        self.label_names = label_names
        self.split = split
        self.split_origin = split_origin
        self._root, self._paths = root, paths

    def image(self, row: int, at_least: int | None = None) -> Image.Image:
        path = self.image_file(row)
        return decode(path, str(path), at_least)

    def image_file(self, row: int) -> Path:
        return self._root / self._paths[row]

    def item_name(self, row: int) -> str:
        return str(self._root / self._paths[row])

    def stable_names(self) -> Iterable[str]:
        return (path.replace(os.sep, "/") for path in self._paths)

    def content_samples(self) -> Iterable[bytes]:
        return file_stamps(self._root / path for path in self._paths)


class _ImageFile(NamedTuple):
    path: str  # relative to the root
    label: str | None
    part: str


def open_folder(root: Path, *, name: str | None = None, parts: frozenset[str] | None = None) -> FolderSource:
    """A folder with a sub-folder for each class, or with ``train``, ``val``, ``test`` … that have such sub-folders.
    They may also be below the classes.

    A folder of images without sub-folders is unlabelled; so is a sub-folder ``unlabelled`` in the place of a class, or
    next to ``train``, ``val`` and ``test``. Capitals do not matter (:mod:`scdh.data.split_words`).
    """
    name = name or root.name or str(root)
    root = _below_wrapping(root)
    folders = _sub_folders(root)
    divided, divided_classes = _are_parts(root, folders), False
    files: list[_ImageFile] = []
    others: list[str] = []  # files that are not read
    if divided:
        for folder in folders:
            part = _part_of_folder(folder)
            if part == UNLABELLED:
                files += [_ImageFile(path, None, part) for path in images_below(root, folder, others)]
            elif parts is None or part in parts:
                files += _class_files(root, folder, part, others)
    else:
        files = _class_files(root, "", "", others)
        divided = divided_classes = _have_parts(folders, files)
    if divided_classes:
        files = [file._replace(part=_inner_part(file)) for file in files]
        files = [file for file in files if parts is None or file.part in parts]
    skipped = describe_skipped(root, others)
    if not files:
        instead = f"; it has files that are not read: {skipped}" if skipped else ""
        raise DataError(f"The folder {root} contains no images ({', '.join(sorted(EXTENSIONS))}){instead}.")
    if skipped:
        warnings.warn(f"{name}: {len(files):,} images are read, but not these files: {skipped}.", stacklevel=2)
    label_names = sorted({file.label for file in files if file.label is not None})
    numbers = {label: i for i, label in enumerate(label_names)}
    labels = np.array([NO_LABEL if file.label is None else numbers[file.label] for file in files], dtype=np.int64)
    split = np.array([file.part for file in files]) if divided else None
    paths = [file.path for file in files]
    origin = f"sub-folders of {'the classes of ' if divided_classes else ''}{name}"
    source = FolderSource(root, paths, labels, label_names, name=name, split=split, split_origin=origin)
    source.split_note = "" if divided else _note_on_classes(folders) or _note_on_wrapping(root)
    return source


def _below_wrapping(root: Path) -> Path:
    """The folder with the parts, if one or more folders wrap it, as in archives (``photos/photos/train/cat``)."""
    inner = _only_folder(root)
    while inner is not None:
        parts = _sub_folders(inner)
        # Without classes below the parts, the one folder is a class that is divided itself.
        if _are_parts(inner, parts) and any(_sub_folders(inner / part) for part in parts):
            return inner
        inner = _only_folder(inner)
    return root


def _only_folder(folder: Path) -> Path | None:
    """The one sub-folder of a folder that holds nothing else to read."""
    folders = _sub_folders(folder)
    if len(folders) != 1 or any(is_image_name(entry.name) for entry in os.scandir(folder)):
        return None
    return folder / folders[0]


def _part_of_folder(folder: str) -> str:
    """The part that a folder's name means, also in "train_images" and "TestSet"."""
    return part_name(folder) if is_part(folder) else part_of_name(folder) or folder


def _are_parts(root: Path, folders: list[str]) -> bool:
    """Whether the sub-folders are parts of a split rather than classes.

    They are if all have names of parts, with train or database among them; if all have longer names with such words,
    with train among them, and the same class folders; or if some have such names: two that repeat each other's class
    folders, or one of two folders with the same class folders, as ``train/cat`` and ``holdout/cat``. In the last case a
    setting must explain the other names. A folder that is called test or index among class folders is a class.
    """
    names = {part_name(folder) for folder in folders if is_part(folder)}
    if all(is_part(folder) for folder in folders) and {TRAIN, DATABASE} & names:
        return True
    meant = {_part_of_folder(folder) for folder in folders}
    if TRAIN in meant and len(meant) == len(folders) > 1 and all(map(is_part, meant)):  # train_images, test_images
        return bool(set.intersection(*(set(_sub_folders(root / folder)) for folder in folders)))
    classes = {folder: set(_sub_folders(root / folder)) for folder in folders if part_name(folder) != UNLABELLED}
    parts = [inner for folder, inner in classes.items() if is_part(folder)]
    if len(names - {UNLABELLED}) >= 2:
        return bool(set.intersection(*parts))
    others = [inner for folder, inner in classes.items() if not is_part(folder)]
    return len(parts) == len(others) == 1 and bool(others[0]) and others[0] <= parts[0]


def _have_parts(folders: list[str], files: list[_ImageFile]) -> bool:
    """Whether the classes are divided by sub-folders of their own, as ``cat/train`` and ``cat/test``: every image is in
    one with a name of a part, train or database among them; or each of several classes has train and only sub-folders.
    """
    words = {(file.label, _inner_part(file)) for file in files if file.label is not None}
    parts = {part for _, part in words}
    if len(parts) < 2 or UNMARKED in parts:
        return False
    if all(map(is_part, parts)):
        return bool({TRAIN, DATABASE} & parts)
    classes = [folder for folder in folders if part_name(folder) != UNLABELLED]
    return len(classes) > 1 and all((folder, TRAIN) in words for folder in classes)


def _inner_part(file: _ImageFile) -> str:
    """The part that the sub-folder of its class means; ``UNMARKED`` if the image is in the class folder itself."""
    folders = Path(file.path).parts[1:-1]
    return part_name(folders[0]) if folders else UNLABELLED if file.label is None else UNMARKED


def _note_on_classes(folders: list[str]) -> str:
    """A sentence if a folder that is read as a class might have been meant as a part."""
    alike = [folder for folder in folders if is_part(folder) and part_name(folder) != UNLABELLED]
    if not alike:
        return ""
    other = next((folder for folder in folders if not is_part(folder)), None)
    read_as = "is read as a class" if len(alike) == 1 else "are read as classes"
    return f"{' and '.join(alike)} {read_as}, {'as there is no train' if other is None else f'like {other}'}"


def _note_on_wrapping(root: Path) -> str:
    """A sentence if all images are of one class, whose sub-folders may have been meant as the classes."""
    inner = _only_folder(root)
    while inner is not None and (below := _only_folder(inner)) is not None:
        inner = below
    if inner is None or any(is_image_name(entry.name) for entry in os.scandir(inner)):
        return ""
    count = sum(bool(images_below(inner, folder)) for folder in _sub_folders(inner))
    if count < 2:
        return ""
    return (
        f"all images are in {_sub_folders(root)[0]}, the only class; --data {inner} has {count} sub-folders as classes"
    )


def images_below(root: Path, folder: str = "", others: list[str] | None = None) -> list[str]:
    """Image files at any depth below root/folder, sorted, relative to root; hidden ones are left out.

    ``others``, if given, is extended by the remaining files.
    """
    paths = []
    for directory, sub_folders, files in os.walk(root / folder):
        sub_folders[:] = [name for name in sub_folders if not _is_hidden(name)]
        base = os.path.relpath(directory, root)
        paths += [os.path.normpath(os.path.join(base, file)) for file in files if is_image_name(file)]
        if others is not None:
            others += [os.path.normpath(os.path.join(base, file)) for file in files if not is_image_name(file)]
    return sorted(paths)


def _class_files(root: Path, folder: str, part: str, others: list[str]) -> list[_ImageFile]:
    """Every image below root/folder; its sub-folders are classes, images in it have no label."""
    base = root / folder
    names = [entry.name for entry in os.scandir(base)]
    outside_classes = sorted(os.path.join(folder, name) for name in names if is_image_name(name))
    others += [os.path.join(folder, name) for name in names if not is_image_name(name) and not (base / name).is_dir()]
    classes = _sub_folders(base)
    if outside_classes and classes:
        raise DataError(
            f"{len(outside_classes)} images are in {base} itself, next to its class folders, for example "
            f"{os.path.basename(outside_classes[0])!r}; put images without a label into a folder 'unlabelled'."
        )
    files = [_ImageFile(path, None, part) for path in outside_classes]
    for label in classes:
        unread: list[str] = []
        paths = images_below(root, os.path.join(folder, label), unread)
        others += unread
        is_unlabelled = part_name(label) == UNLABELLED
        if not paths and not is_unlabelled:
            skipped = describe_skipped(root, unread)
            advice = f"it has files that are not read: {skipped}" if skipped else "fill it or remove it"
            raise DataError(f"The class folder {base / label} contains no images; {advice}.")
        files += [_ImageFile(path, None if is_unlabelled else label, part) for path in paths]
    return files


def _sub_folders(folder: Path) -> list[str]:
    entries = [entry for entry in os.scandir(folder) if not _is_hidden(entry.name) and entry.is_dir()]
    return sorted(entry.name for entry in entries if not (entry.is_symlink() and _leads_upward(entry.path)))


def _leads_upward(link: str) -> bool:
    """Whether a link leads to a folder that it is in: all images there would be those of one more class."""
    target = os.path.realpath(link)
    return os.path.commonpath([target, os.path.realpath(os.path.dirname(link))]) == target


def _is_hidden(folder: str) -> bool:
    return folder.startswith(".") or folder in LEFTOVERS
