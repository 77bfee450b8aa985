"""Write one small file of each format, as described in docs/formats.md.

``python -m tests.storage.make_golden tests/storage/golden`` wrote the folder once. Do not write it again
while the format versions stay the same: ``tests/storage/test_formats.py`` checks that they can still be read.
"""

import json
import os
import shutil
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.codes import Codes
from scdh.config import load_config
from scdh.data.name_files import save_named_codes, save_names
from scdh.data.row_names import RowNames
from scdh.index.store import IndexWriter
from scdh.model.hasher import Hasher
from scdh.storage.json_files import write_table
from tests.training.settled import train

BITS, IDS = 13, np.array([3, 5, 8, 13, 21, 34])
NAMES = ["cat.jpg", "dog.jpg", "", "b/é.png", "7", "last"]
NUMBER = "0123456789abcdef"  # ties the index to its names
SETTINGS = {
    "data.source": "data.npz",
    "data.query_per_class": 2,
    "data.validation_per_class": 2,
    "net.backbone": "features",
    "net.hidden": [3],
    "method.bits": 8,
    "train.epochs": 2,
    "train.batch_size": 8,
    "train.workers": 0,
    "train.keep": "last",
}


def golden_codes() -> Codes:
    """Six codes of 13 bits, with ids and metadata."""
    bits = np.random.default_rng(0).random((len(IDS), BITS)) < 0.5
    return Codes(Codes.from_bits(bits).packed, BITS, IDS, {"model": "0011223344556677"})


def golden_codes_with_vectors() -> Codes:
    """The same codes with vectors of three whole numbers."""
    return golden_codes().with_vectors(np.arange(-9, 9).reshape(len(IDS), 3), "int8")


def write_data(folder: Path) -> None:
    """24 vectors of two classes, to train on."""
    labels = np.arange(24) % 2
    vectors = np.random.default_rng(1).normal(size=(24, 4)) + 3 * labels[:, None]
    np.savez(folder / "data.npz", X=vectors.astype(np.float32), y=labels)


def write_codes_file(folder: Path) -> None:
    """``photos.codes``: codes with names and one label per row; −1 means no label."""
    row_names = RowNames(IDS, NAMES, np.array([0, 1, -1, 1, 0, 0]), ["cat", "dog"])
    save_named_codes(folder / "photos.codes", golden_codes(), row_names)


def write_index_files(folder: Path) -> None:
    """``photos.index``: two appends and a removal; its names file, with several labels per row.

    ``vectors.codes`` and ``vectors.index`` have vectors.
    """
    codes, path = golden_codes(), folder / "photos.index"
    with IndexWriter(path, BITS, {"model": "0011223344556677", "names": NUMBER}) as writer:
        writer.add(codes[:4])
        writer.add(codes[4:])
        writer.remove([5])
    golden_codes_with_vectors()[:4].save(folder / "vectors.codes")
    with IndexWriter(folder / "vectors.index", BITS, {"model": "0011223344556677"}) as writer:
        writer.add(golden_codes_with_vectors())
        writer.remove([5])
    labels = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]], np.uint8)
    save_names(RowNames(IDS, NAMES, labels, ["cat", "dog", "night"]), path)


def write_run(folder: Path) -> None:
    """``run``: two epochs on ``data.npz``, with the checkpoint and the model."""
    torch.manual_seed(0)
    with chdir(folder):
        train(load_config(overrides=SETTINGS), Path("run"), quiet=True)
    shutil.rmtree(folder / "run" / "tensorboard", ignore_errors=True)
    settings = folder / "run" / "config.json"
    content = json.loads(settings.read_text("utf-8"))
    content["data_paths"]["source"]["absolute"] = "/data/data.npz"  # not the folder of the machine that wrote it
    write_table(settings, content)


def outputs_of(model: Path) -> np.ndarray:
    """The real outputs of a model on a fixed input, [2, bits]."""
    hasher = Hasher.load(model)
    inputs = torch.linspace(-1, 1, 8).reshape(2, 4)
    with torch.no_grad():
        return hasher.network.eval()(inputs).u.numpy()


def write_all(folder: Path) -> None:
    """Write every file, and in ``expected.json`` the outputs of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder)
    write_codes_file(folder)
    write_index_files(folder)
    write_run(folder)
    expected: dict[str, Any] = {"outputs": outputs_of(folder / "run" / "model").tolist()}
    (folder / "expected.json").write_text(json.dumps(expected) + os.linesep, "utf-8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
