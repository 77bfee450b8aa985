"""Small runs, and every kind of wrong file that the cases of ``bad_input_table`` name."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.runs.choices import Choices
from scdh.runs.folder import RunFolder
from tests.cli.commands import must

QUICK = "--set train.batch_size=8 --set data.query_per_class=2 --epochs 1"
SMALL = f"--set net.backbone=small_conv --set train.workers=0 {QUICK}"


def prepare(d: Path) -> None:
    """Fill ``d`` with small runs and with every kind of wrong file that the cases name."""
    _folder(d / "corrupt")
    must(f"train --data {d}/corrupt {SMALL} --bits 16 --seed 1 --out {d}/photo_run")
    (d / "corrupt/pears/04.jpg").write_bytes((d / "corrupt/pears/04.jpg").read_bytes()[:150])
    _folder(d / "empty_class", sizes={"apples": 4, "pears": 0})
    must(f"train --preset demo-digits --epochs 1 --out {d}/run")
    _vectors(d)
    _changed_run(d)
    Choices(RunFolder(d / "run").config(), ["train.lr_head"]).save(RunFolder(d / "stopped_run").choices_file)
    (d / "broken.toml").write_text("epochs == 3")
    shutil.copytree(d / "run/model", d / "lone_model")
    shutil.copytree(d / "run/model", d / "broken_model")
    _cut(d / "run/model/model.safetensors", d / "broken_model/model.safetensors")
    for bits in (16, 32):
        codes = Codes.from_signs(np.random.default_rng(bits).normal(size=(10, bits)), ids=np.arange(10))
        codes.save(d / f"{bits}.codes")
        _labelled(codes, d / f"labelled{bits}.codes")
        HammingIndex(codes).save(d / f"{bits}.index")
    codes = Codes.load(d / "16.codes")
    HammingIndex(Codes(codes.packed, 16, codes.ids, {"model": "another"})).save(d / "foreign.index")
    must(f"index {d}/labelled16.codes --out {d}/labelled16.index")
    _cut(d / "16.codes", d / "short.codes")
    _cut(d / "16.index", d / "short.index")


def _folder(root: Path, sizes: dict[str, int] | None = None) -> None:
    """A folder of small JPEGs, one sub-folder per class."""
    rng = np.random.default_rng(0)
    for shade, (name, count) in enumerate((sizes or {"apples": 8, "pears": 8}).items()):
        (root / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 100, (24, 24, 3)) + 100 * shade
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{i:02}.jpg")


def _vectors(d: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    y = np.arange(12) % 2
    np.savez(d / "few.npz", X=x, y=y)
    words = np.array(["train"] * 8 + ["test"] * 2 + ["holdout"] * 2)
    np.savez(d / "split.npz", X=x, y=y, split=words)
    np.savez(d / "queries.npz", X=x, y=y, split=np.full(12, "query"))
    np.savez(d / "short_split.npz", X=x, y=y, split=words[:9])
    np.save(d / "no_labels.npy", x)
    wrong = y.copy()
    wrong[5] = 7
    np.savez(d / "label_7.npz", X=x, y=wrong, label_names=np.array(["a", "b"]))
    broken = x.copy()
    broken[3, 1] = np.nan
    np.savez(d / "nan.npz", X=broken, y=y)
    cells = [row[:3] if i == 7 else row for i, row in enumerate(x.tolist())]
    pq.write_table(pa.table({"embedding": cells, "label": y}), d / "ragged.parquet")
    (d / "prices.csv").write_text("shop,price\na,1\nb,2\n")
    np.savez(d / "parts.npz", x_train=x, y_train=y, x_test=x[:, :2])
    lines = [f'"{row}",{i % 2},{word}' for i, (row, word) in enumerate(zip(x.tolist(), words, strict=True))]
    (d / "subset.csv").write_text("\n".join(["embedding,label,Subset", *lines]))
    rows = [",".join(map(str, row)) for row in x.tolist()]
    (d / "wide.csv").write_text("\n".join(["f0,f1,f2,f3", *rows]))
    two = {"a": [*words[:10], "", ""], "b": [*words[:10], "", ""]}
    pq.write_table(pa.table({"embedding": x.tolist(), "label": y, **two}), d / "two_splits.parquet")
    (d / "loop").mkdir()
    (d / "loop" / "again").symlink_to(".")


def _changed_run(d: Path) -> None:
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    np.savez(d / "changed.npz", X=x, y=np.arange(40) % 2)
    must(f"train --data {d}/changed.npz {QUICK} --bits 8 --out {d}/changed_run")
    np.savez(d / "changed.npz", X=x[:39], y=np.arange(39) % 2)


def _labelled(codes: Codes, path: Path) -> None:
    from scdh.data.row_names import RowNames

    names = [f"item {i}" for i in range(len(codes))]
    codes.save(path)
    RowNames(np.arange(len(codes)), names, np.arange(len(codes)) % 2, ["even", "odd"]).save(path)


def _cut(whole: Path, short: Path) -> None:
    short.write_bytes(whole.read_bytes()[:-10])
