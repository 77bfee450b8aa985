"""CIFAR-10 from the official binary files, or from train.parquet and test.parquet in Hugging Face's form."""

import hashlib
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np

from scdh.data.arrays.memory import ArraySource
from scdh.data.source import Source
from scdh.data.tables.readers import open_parquet
from scdh.errors import DataError
from scdh.files import replacing, replacing_folder

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TRAIN_FILES = [f"data_batch_{i}.bin" for i in range(1, 6)]
TEST_FILE = "test_batch.bin"
RECORD = 1 + 3 * 32 * 32  # the label, then the red, the green and the blue picture
FOLDER = "cifar-10-batches-bin"
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MD5 = "c32a1d4ab5d03f1284b67883e8d87530"


def open_cifar10(root: Path) -> Source:
    """All rows, training files first, with the official division kept in ``split``."""
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
    pictures = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    words = np.repeat(["train"] * len(TRAIN_FILES) + ["test"], [len(part) for part in parts])
    places = [f"{file} record {i}" for file, part in zip(files, parts, strict=True) for i in range(len(part))]
    labels = records[:, 0].astype(np.int64)
    return ArraySource(pictures, labels, _names(folder), name="cifar10", split=words, item_names=places)


def _records(file: Path) -> np.ndarray:
    if not file.is_file():
        raise DataError(f"CIFAR-10 lacks the file {file}.")
    size = file.stat().st_size
    if size == 0 or size % RECORD:
        raise DataError(f"{file} has {size} bytes, which is not a whole number of records of {RECORD} bytes.")
    return np.fromfile(file, np.uint8).reshape(-1, RECORD)


def _names(folder: Path) -> list[str]:
    file = folder / "batches.meta.txt"
    return file.read_text(encoding="utf-8").split() if file.is_file() else NAMES


def download_cifar10(
    root: Path, *, url: str = URL, md5: str = MD5, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Fetch and unpack the binary version (170 MB) below ``root``; ``progress`` gets bytes done and total."""
    folder, archive = root / FOLDER, root / "cifar-10-binary.tar.gz"
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, replacing(archive) as temporary:
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            with open(temporary, "wb") as out:
                while block := answer.read(1 << 20):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, total)
            if digest.hexdigest() != md5:
                raise DataError(f"{url} gave {done} bytes with MD5 {digest.hexdigest()}, expected {md5}.")
    except (urllib.error.URLError, OSError) as error:
        raise DataError(f"{url} cannot be downloaded: {error}.") from error
    try:
        with replacing_folder(folder) as temporary, tarfile.open(archive) as tar:
            for member in tar.getmembers():
                if member.isfile():  # flat, under its own last name, so nothing can land elsewhere
                    member.name = Path(member.name).name
                    tar.extract(member, temporary, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise DataError(f"{archive} cannot be unpacked: {error}.") from error
    archive.unlink()
    return folder
