"""CIFAR-10 from the official binary files, or from train.parquet and test.parquet as Hugging Face writes them."""

from pathlib import Path

import numpy as np

from scdh.data.arrays.memory import ArraySource
from scdh.data.source import Source
from scdh.data.tables.readers import open_parquet
from scdh.errors import DataError

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TRAIN_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)]
TEST_FILE = "test_batch.bin"
RECORD = 1 + 3 * 32 * 32  # one byte of label, then the red, the green and the blue channel
FOLDER = "cifar-10-batches-bin"
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"


def open_cifar10(root: Path) -> Source:
    """All rows, those of the training files first; ``split`` has the official division."""
    for folder in (root, root / FOLDER, root / "cifar10", root / "cifar10" / FOLDER):
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
                f"use the official binary version instead ({URL})."
            )
    raise DataError(
        f"No CIFAR-10 in {root}; expected {TRAIN_FILES[0]} … {TEST_FILE} of the binary version ({URL}), "
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
    if size == 0 or size % RECORD:
        raise DataError(f"{file} has {size} bytes, which is not a whole number of records of {RECORD} bytes.")
    return np.fromfile(file, np.uint8).reshape(-1, RECORD)


def _label_names(folder: Path) -> list[str]:
    file = folder / "batches.meta.txt"
    return file.read_text(encoding="utf-8").split() if file.is_file() else NAMES
