"""Wrong input and the message that it gives. ``python -m tests.cli.bad_input_table`` prints it for the docs."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from scdh.codes import Codes
from scdh.experiments.pages.markdown import markdown_table
from scdh.index import HammingIndex
from tests.cli.commands import must, run

QUICK = "--set train.batch_size=8 --set data.query_per_class=2 --epochs 1"
SMALL = f"--set net.backbone=small_conv --set train.workers=0 {QUICK}"


@dataclass(frozen=True)
class Case:
    """``command`` may hold {d}, the folder that :func:`prepare` filled; the message must contain ``expected``."""

    title: str
    command: str
    expected: tuple[str, ...]


CASES = (
    Case("info of nothing", "info {d}/nowhere", ("nowhere", "is not a run, a model, codes, an index")),
    Case("report of what is no run", "report {d}", ("is not a run folder",)),
    Case("pictures for no page", "search {d}/some.index --row 0 --data digits", ("--data", "--html")),
    Case("unknown preset", "train --preset cifar --out {d}/x", ("preset", "cifar", "did you mean 'cifar10'")),
    Case("unknown method", "train --preset demo-digits --method scdhh --out {d}/x", ("method", "did you mean 'scdh'")),
    Case(
        "unknown backbone",
        "train --data digits-images --set net.backbone=resnet51 --out {d}/x",
        ("backbone", "resnet51", "did you mean"),
    ),
    Case(
        "image backbone for embeddings",
        "train --data digits --set net.backbone=resnet50 --out {d}/x",
        ("embeddings", "'features'", "resnet50"),
    ),
    Case(
        "unknown setting",
        "train --preset demo-digits --set train.epoch=3 --out {d}/x",
        ("train.epoch", "did you mean 'train.epochs'"),
    ),
    Case(
        "unknown setting of the method",
        "train --preset demo-digits --set method.lamda=3 --out {d}/x",
        ("scdh setting", "'lamda'", "did you mean 'lam'"),
    ),
    Case("unknown data set", "train --data cifar11 --out {d}/x", ("cifar11", "cifar10")),
    Case("setting without a value", "train --preset demo-digits --set train.epochs --out {d}/x", ("train.epochs",)),
    Case(
        "setting given twice", "train --preset demo-digits --set train.epochs=1 --set train.epochs=2", ("given twice",)
    ),
    Case("option and --set at once", "train --preset demo-digits --bits 8 --set method.bits=9", ("given twice",)),
    Case("configuration that is not TOML", "train --config {d}/broken.toml --out {d}/x", ("broken.toml", "TOML")),
    Case("nothing to train on", "train", ("--data", "--preset")),
    Case("bits = 0", "train --preset demo-digits --bits 0 --out {d}/x", ("method.bits", "0", "greater")),
    Case("empty class folder", f"train --data {{d}}/empty_class {SMALL} --out {{d}}/x", ("pears", "no images")),
    Case(
        "label out of range",
        f"train --data {{d}}/label_7.npz {QUICK} --out {{d}}/x",
        ("label 7", "row 5", "expected 0 to 1"),
    ),
    Case("NaN embedding", f"train --data {{d}}/nan.npz {QUICK} --out {{d}}/x", ("nan.npz", "NaN", "row 3")),
    Case(
        "embeddings of two lengths", "train --data {d}/ragged.parquet --method itq --out {d}/x", ("4 numbers", "row 7")
    ),
    Case(
        "table without images and embeddings",
        "train --data {d}/prices.csv --out {d}/x",
        ("prices.csv", "--image-column", "--vector-column"),
    ),
    Case(
        "separator of labels that are no text",
        "train --data {d}/ragged.parquet --label-separator , --out {d}/x",
        ("--label-separator", "int64"),
    ),
    Case("id column that is not there", "datasets {d}/ragged.parquet --id-column asin", ("asin", "embedding", "label")),
    Case("more bits than numbers", "train --data {d}/few.npz --method pca --out {d}/x", ("at most 4 bits", "48")),
    Case(
        "too few rows in a class",
        "train --data {d}/few.npz --set data.query_per_class=100 --out {d}/x",
        ("100", "query"),
    ),
    Case(
        "word of the split without a meaning",
        f"train --data {{d}}/split.npz {QUICK} --out {{d}}/x",
        ("holdout (2 rows)", "train (8 rows)", "--set data.query=holdout"),
    ),
    Case(
        "part that is not there",
        f"train --data {{d}}/split.npz {QUICK} --set data.query=hold --out {{d}}/x",
        ("no part 'hold'", "data.query", "holdout (2 rows)"),
    ),
    Case(
        "one part for two things",
        f"train --data {{d}}/split.npz {QUICK} --set data.train=train,test --out {{d}}/x",
        ("'test'", "data.train", "data.query"),
    ),
    Case(
        "every row is a query",
        f"train --data {{d}}/queries.npz {QUICK} --out {{d}}/x",
        ("queries.npz", "no labelled rows left to train on", "test (12 rows)"),
    ),
    Case(
        "split of another length", f"train --data {{d}}/short_split.npz {QUICK} --out {{d}}/x", ("12 rows", "9 split")
    ),
    Case(
        "parts named for data without a split",
        f"train --data {{d}}/few.npz {QUICK} --set data.validation=val --out {{d}}/x",
        ("few.npz", "does not come divided"),
    ),
    Case(
        "labels wanted and none there",
        f"train --data {{d}}/no_labels.npy {QUICK} --out {{d}}/x",
        ("no_labels.npy has no labels", "--method itq"),
    ),
    Case(
        "corrupt JPEG in training",
        f"train --data {{d}}/corrupt {SMALL} --set data.split=all --out {{d}}/x",
        ("corrupt/pears/04.jpg", "read"),
    ),
    Case(
        "corrupt JPEG to encode", "encode {d}/photo_run {d}/corrupt --out {d}/x.codes", ("corrupt/pears/04.jpg", "read")
    ),
    Case("images for a model of vectors", "encode {d}/run digits-images --out {d}/x.codes", ("embeddings", "images")),
    Case("embeddings of another width", "encode {d}/run {d}/few.npz --out {d}/x.codes", ("width 64", "width 4")),
    Case("missing image file", "encode {d}/photo_run nowhere.jpg --out {d}/x.codes", ("nowhere.jpg",)),
    Case("missing data file", "encode {d}/run {d}/nowhere.npz --out {d}/x.codes", ("nowhere.npz",)),
    Case("missing model", "encode {d}/nowhere digits --out {d}/x.codes", ("nowhere", "model")),
    Case("not a model folder", "encode {d}/corrupt digits --out {d}/x.codes", ("corrupt", "config.json")),
    Case("broken model weights", "encode {d}/broken_model digits --out {d}/x.codes", ("broken_model", "broken")),
    Case("part of no split", "encode {d}/lone_model digits --part query --out {d}/x.codes", ("protocol.json",)),
    Case("output below a file", "encode {d}/run digits --out {d}/nan.npz/x.codes", ("nan.npz",)),
    Case("run folder below a file", "train --preset demo-digits --out {d}/nan.npz/x", ("nan.npz",)),
    Case("output is a folder", "index {d}/16.codes --out {d}/corrupt", ("corrupt", "folder")),
    Case("missing codes", "index {d}/nowhere.codes --out {d}/x.index", ("nowhere.codes",)),
    Case("truncated codes", "index {d}/short.codes --out {d}/x.index", ("short.codes", "cut short", "bytes")),
    Case("codes of two lengths", "index {d}/16.codes {d}/32.codes --out {d}/x.index", ("32 bits", "16 bits")),
    Case("ids that come twice", "index {d}/16.codes {d}/16.codes --out {d}/x.index", ("id 0", "--renumber")),
    Case("append to a missing index", "index {d}/16.codes --append --out {d}/nowhere.index", ("nowhere.index",)),
    Case("append of another length", "index {d}/32.codes --append --out {d}/16.index", ("32 bits", "16 bits")),
    Case("an index that exists", "index {d}/32.codes --out {d}/16.index", ("16.index", "--replace", "--append")),
    Case("codes that exist", "encode {d}/run digits --out {d}/16.codes", ("16.codes", "codes of 16 bits", "--replace")),
    Case("nowhere to put codes", "index {d}/16.codes", ("--out", "--to")),
    Case("two places for codes", "index {d}/16.codes --out {d}/x.index --to milvus:x.db/x", ("--out", "--to")),
    Case("no codes to index", "index --out {d}/x.index", ("at least one file",)),
    Case("check and more", "index {d}/16.codes --check {d}/16.index", ("--check",)),
    Case("check of a truncated index", "index --check {d}/short.index", ("short.index", "cut short", "bytes")),
    Case("append to Milvus", "index {d}/16.codes --append --to milvus:{d}/x.db/x", ("--append", "--to")),
    Case("Milvus without a collection", "index {d}/16.codes --to milvus://host", ("milvus://host", "collection")),
    Case("Milvus collection not there", "search --index milvus:{d}/no.db/x --row 0", ("no.db/x",)),
    Case("label that nothing has", "search {d}/labelled16.index --row 0 --label evn", ("evn", "did you mean 'even'")),
    Case("label without labels", "search {d}/16.index --row 0 --label pear", ("--label", "16.index")),
    Case("names that are not there", "search {d}/16.index --row 0 --names {d}/x.codes", ("x.codes.items.json",)),
    Case("no index", "search --row 0", ("index", "milvus://")),
    Case("curves of an unknown kind", "evaluate {d}/run --curves {d}/x.bmp", (".png", "x.bmp")),
    Case("truncated index", "search {d}/short.index --row 0", ("short.index", "cut short", "bytes")),
    Case("codes where an index is needed", "search {d}/16.codes --row 0", ("16.codes", "scdh-index", "scdh-codes")),
    Case("query codes of another length", "search {d}/16.index --codes {d}/32.codes", ("32 bits", "16 bits")),
    Case("k = 0", "search {d}/16.index --row 0 -k 0", ("k must", "at least 1", "0")),
    Case("radius below 0", "search {d}/16.index --row 0 --radius -1", ("radius", "-1")),
    Case("id that the index does not hold", "search {d}/16.index --row 99", ("no id 99", "0 to 9")),
    Case("name that no item has", "search {d}/labelled16.index --row itm-3", ("itm-3", "did you mean 'item 3'")),
    Case("name in an index without names", "search {d}/16.index --row item-3", ("item-3", "whole number")),
    Case("no query", "search {d}/16.index", ("--model", "--codes", "--row")),
    Case(
        "query model that did not make the index",
        "search {d}/foreign.index --model {d}/photo_run {d}/corrupt/apples/00.jpg",
        ("different models",),
    ),
    Case(
        "query and database of different lengths",
        "evaluate --queries {d}/labelled16.codes --database {d}/labelled32.codes",
        ("16 bits", "32 bits"),
    ),
    Case("codes without labels", "evaluate --queries {d}/16.codes --database {d}/16.codes", ("labels", "16.codes")),
    Case("missing run folder", "evaluate {d}/nowhere", ("nowhere",)),
    Case("not a run folder", "evaluate {d}/corrupt", ("corrupt", "config.json")),
    Case("data changed after training", "evaluate {d}/changed_run", ("changed", "fingerprint")),
    Case("topk that is no number", "evaluate {d}/run --topk few", ("few", "--topk")),
    Case("run folder already used", "train --preset demo-digits --out {d}/run", ("run", "--resume")),
    Case("resume with other settings", "train --resume --out {d}/run --bits 77", ("method.bits", "not 77")),
    Case("resume where no run is", "train --resume --out {d}/corrupt", ("corrupt", "config.json")),
    Case("unknown option", "train --preset demo-digits --bit 4", ("--bit",)),
    Case("unknown command", "tarin", ("tarin",)),
    Case("missing argument", "encode {d}/run --out {d}/x.codes", ("Missing argument",)),
    Case("unknown choice", "evaluate {d}/run --ties random", ("--ties", "expected")),
    Case("unknown method to describe", "methods scdhx", ("scdhx", "did you mean 'scdh'")),
    Case("data to describe do not exist", "datasets {d}/nowhere", ("nowhere",)),
)


def prepare(d: Path) -> None:
    """Fill ``d`` with small runs and with every kind of wrong file that the cases name."""
    _folder(d / "corrupt")
    must(f"train --data {d}/corrupt {SMALL} --bits 16 --seed 1 --out {d}/photo_run")
    (d / "corrupt/pears/04.jpg").write_bytes((d / "corrupt/pears/04.jpg").read_bytes()[:150])
    _folder(d / "empty_class", sizes={"apples": 4, "pears": 0})
    must(f"train --preset demo-digits --epochs 1 --out {d}/run")
    _vectors(d)
    _changed_run(d)
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
    """A folder of small JPEGs, one sub-folder a class."""
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


def print_table(show: Callable[[str], None] = print) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        d = Path(scratch)
        prepare(d)
        rows = []
        for case in CASES:
            command = case.command.format(d=d)
            message = run(command)[2].strip().splitlines()[-1]
            texts = (case.title, f"`scdh {command}`", message)
            rows.append([text.replace(f"{d}/", "").replace("|", "\\|") for text in texts])
        show(markdown_table(["input", "command", "message"], rows, left=range(3)))


if __name__ == "__main__":
    print_table()
    sys.exit(0)
