"""The paper's three benchmarks, from tiny files laid out as the official ones."""

from pathlib import Path

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data import ArraySource, open_source
from scdh.data.named.readers import CIFAR10_LABELS, CIFAR10_RECORD
from scdh.errors import DataError
from scdh.runs.protocol import protocol_of
from tests.data.data_files import class_label, image_cells, write_parquet, write_pictures


def write_cifar(folder: Path, per_file: int = 20) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (6, per_file, CIFAR10_RECORD), dtype=np.uint8)
    records[:, :, 0] = np.arange(per_file) % 10
    for name, part in zip([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"], records, strict=True):
        part.tofile(folder / name)
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_LABELS) + "\n\n")
    return records


def test_cifar_binary(tmp_path: Path) -> None:
    records = write_cifar(tmp_path / "cifar-10-batches-bin")
    source = open_source("cifar10", root=tmp_path)
    assert len(source) == 120
    assert source.label_names == CIFAR10_LABELS
    assert source.split.tolist() == ["train"] * 100 + ["test"] * 20
    pixels = np.asarray(source.image(45))
    for channel in range(3):
        plane = records[2, 5, 1 + 1024 * channel : 1025 + 1024 * channel].reshape(32, 32)
        assert np.array_equal(pixels[:, :, channel], plane)
    assert source.item_name(45) == "data_batch_3.bin record 5"
    protocol = protocol_of(load_config(overrides={"data.source": "cifar10", "data.split": "given"}), source)
    assert protocol.query.tolist() == list(range(100, 120))
    with pytest.raises(DataError, match="Class 'airplane' has only 12 rows left for the query part, but 100"):
        protocol_of(load_config(preset="cifar10"), source)


def test_cifar_paper_sizes() -> None:
    source = ArraySource(np.zeros((60000, 1), np.float32), np.arange(60000) % 10)
    protocol = protocol_of(load_config(preset="cifar10", overrides={"data.validation_per_class": 50}), source)
    assert (len(protocol.query), len(protocol.database)) == (1000, 59000)
    assert (len(protocol.train), len(protocol.validation)) == (4500, 500)
    assert np.isin(protocol.train, protocol.database).all()


def test_cifar_parquet(tmp_path: Path) -> None:
    features = {"image": {"_type": "Image"}, "label": class_label(*CIFAR10_LABELS)}
    write_parquet(tmp_path / "train.parquet", {"image": image_cells(3), "label": [0, 9, 3]}, features)
    write_parquet(tmp_path / "test.parquet", {"image": image_cells(2), "label": [1, 2]}, features)
    source = open_source("cifar10", root=tmp_path)
    assert source.labels.tolist() == [0, 9, 3, 1, 2]
    assert source.split.tolist() == ["train"] * 3 + ["test"] * 2


def test_cifar_mistakes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No CIFAR-10 in"):
        open_source("cifar10", root=tmp_path)
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"pickle")
    with pytest.raises(DataError, match="Python pickles"):
        open_source("cifar10", root=tmp_path)
    write_cifar(tmp_path)
    with open(tmp_path / "data_batch_4.bin", "ab") as handle:
        handle.write(b"x")
    with pytest.raises(DataError, match=r"data_batch_4.bin has 61461 bytes"):
        open_source("cifar10", root=tmp_path)
    records = write_cifar(tmp_path)
    records[1, 3, 0] = 10
    records[1].tofile(tmp_path / "data_batch_2.bin")
    with pytest.raises(DataError, match="the label 10 in row 23, but only 10 label names"):
        open_source("cifar10", root=tmp_path)
    (tmp_path / "data_batch_5.bin").unlink()
    with pytest.raises(DataError, match="lacks the file"):
        open_source("cifar10", root=tmp_path)


def write_nuswide(root: Path, flat: bool = False) -> np.ndarray:
    """30 listed images, 23 concepts of which two are rare; image 29 has none and image 3 has no file."""
    paths = [f"actor\\{i:04d}_99{i}.jpg" for i in range(30)]
    (root / "ImageList").mkdir(parents=True)
    (root / "ImageList/Imagelist.txt").write_text("\r\n".join(paths) + "\r\n")
    hot = np.random.default_rng(1).random((30, 23)) < 0.5
    hot[:, 21:] = False
    hot[0, 21] = hot[1, 22] = True
    hot[28] = False
    hot[28, 22] = True
    hot[29] = False
    (root / "Groundtruth/AllLabels").mkdir(parents=True)
    for i in range(23):
        text = "\n".join(str(int(flag)) for flag in hot[:, i]) + "\n"
        (root / f"Groundtruth/AllLabels/Labels_c{i:02d}.txt").write_text(text)
    there = [i for i in range(30) if i != 3]
    write_pictures(root / "images" if flat else root / "Flickr/actor", [f"{i:04d}_99{i}.jpg" for i in there])
    return hot


@pytest.mark.parametrize("flat", [False, True])
def test_nuswide(tmp_path: Path, flat: bool) -> None:
    hot = write_nuswide(tmp_path, flat)
    source = open_source("nuswide21", root=tmp_path)
    assert source.label_names == [f"c{i:02d}" for i in range(21)]
    rows = [i for i in range(28) if i != 3]
    assert np.array_equal(source.labels, hot[rows, :21])
    assert Path(source.item_name(3)).name == "0004_994.jpg"
    assert source.image(3).size == (20, 16)


def test_nuswide_mistakes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks the file .*Imagelist.txt"):
        open_source("nuswide21", root=tmp_path)
    write_nuswide(tmp_path)
    label = tmp_path / "Groundtruth/AllLabels/Labels_c04.txt"
    label.write_text("0\n1\n")
    with pytest.raises(DataError, match="has 2 lines; expected one 0 or 1 for each of the 30 images"):
        open_source("nuswide21", root=tmp_path)


def test_imagenet_folders(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["train/n02/a.JPEG", "train/n01/b.JPEG", "val/n01/c.JPEG", "test/d.JPEG"])
    source = open_source("imagenet1k", root=tmp_path)
    assert source.label_names == ["n01", "n02"]
    assert len(source) == 3
    protocol = protocol_of(load_config(preset="imagenet1k"), source)
    assert [len(protocol.train), len(protocol.query), len(protocol.database)] == [2, 1, 2]


def test_imagenet_flat_validation(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["train/n02/a.JPEG", "train/n01/b.JPEG", "val/v1.JPEG", "val/v2.JPEG"])
    with pytest.raises(DataError, match="2 validation images of ImageNet are outside class folders"):
        open_source("imagenet1k", root=tmp_path)
    (tmp_path / "LOC_val_solution.csv").write_text("ImageId,PredictionString\nv2,n01 1 2 3 4\nv1,n02 5 6 7 8\n")
    source = open_source("imagenet1k", root=tmp_path)
    named = {Path(source.item_name(i)).stem: source.label_names[source.labels[i]] for i in range(4)}
    assert named == {"a": "n02", "b": "n01", "v1": "n02", "v2": "n01"}
    (tmp_path / "val_map.txt").write_text("v1.JPEG n02\nv2.JPEG n77\n")
    with pytest.raises(DataError, match="gives v2 the class 'n77'"):
        open_source("imagenet1k", root=tmp_path)
    with pytest.raises(DataError, match="No ImageNet in"):
        open_source("imagenet1k", root=tmp_path / "val")
