"""Wrong input and the message that it gives. ``python -m tests.cli.bad_input_table`` prints it for the docs."""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scdh.experiments.pages.markdown import markdown_table
from tests.cli.bad_files import QUICK, SMALL, prepare
from tests.cli.commands import run


@dataclass(frozen=True)
class Case:
    """``command`` may hold {d}, the folder that ``prepare`` filled; the message must contain ``expected``."""

    title: str
    command: str
    expected: tuple[str, ...]


CASES = (
    Case("info of nothing", "info {d}/nowhere", ("nowhere", "is not a run, a model, codes, an index")),
    Case("check of nothing", "check {d}/nowhere", ("nowhere", "nothing at")),
    Case("check of data", "check {d}/corrupt", ("corrupt", "is not a run", "scdh datasets")),
    Case("report of a folder that is not a run", "report {d}", ("is not a run folder",)),
    Case("pictures for no page", "search {d}/some.index --row 0 --data digits", ("--data", "--html")),
    Case("info of cut codes", "info {d}/short.codes", ("short.codes", "cut short")),
    Case("info of broken data", "info {d}/nan.npz", ("nan.npz", "row 3")),
    Case("report of a model without its run", "report {d}/lone_model", ("lone_model", "the folder of its run")),
    Case("report of nothing", "report {d}/nowhere", ("no run folder", "nowhere")),
    Case("report into a folder", "report {d}/run --out {d}/corrupt", ("corrupt is a folder", "--out")),
    Case("report of a run in its trials", "report {d}/stopped_run", ("stopped_run", "--resume")),
    Case("report of changed data", "report {d}/changed_run", ("changed.npz", "rows and labels that the run", "--data")),
    Case("hits into a folder", "search {d}/16.index --row 0 --html {d}/corrupt", ("corrupt is a folder", "--html")),
    Case("hits below a file", "search {d}/16.index --row 0 --html {d}/nan.npz/x.html", ("nan.npz", "not a directory")),
    Case(
        "pictures of other data",
        "search {d}/labelled16.index --row 0 --html {d}/x.html --data {d}/few.npz",
        ("few.npz", "does not hold the items"),
    ),
    Case(
        "pictures that are not there", "search {d}/16.index --row 0 --html {d}/x.html --data {d}/no", ("no file", "no")
    ),
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
        "separator of labels that are not text",
        "train --data {d}/ragged.parquet --label-separator , --out {d}/x",
        ("--label-separator", "int64"),
    ),
    Case("id column that is not there", "datasets {d}/ragged.parquet --id-column asin", ("asin", "embedding", "label")),
    Case("vector column that is not there", "datasets {d}/ragged.parquet --vector-column vec", ("'vec'", "embedding")),
    Case("vectors that are single numbers", "datasets {d}/ragged.parquet --vector-column label", ("lists", "int64")),
    Case("vectors that are text", "datasets {d}/prices.csv --vector-column shop", ("'shop'", "row 0", "'a'")),
    Case("column of an array file", "datasets {d}/few.npz --vector-column X", ("few.npz", "--vector-column")),
    Case(
        "separator for folders of classes", "datasets {d}/corrupt --label-separator ,", ("--label-separator", "corrupt")
    ),
    Case("label column that is not there", "datasets {d}/ragged.parquet --label-column tag", ("'tag'", "label")),
    Case(
        "split column of an array file",
        "train --data {d}/few.npz --set data.split_column=part --out {d}/x",
        ("few.npz", "--set data.split_column", "'part'"),
    ),
    Case(
        "split column of another name with an unknown word",
        f"train --data {{d}}/subset.csv {QUICK} --out {{d}}/x",
        ("subset.csv", "holdout (2 rows)", "--set data.validation=holdout"),
    ),
    Case(
        "two columns that may be the split",
        "datasets {d}/two_splits.parquet",
        ("two_splits.parquet", "a and b", "--set data.split_column"),
    ),
    Case("arrays of parts that do not fit", "datasets {d}/parts.npz", ("x_train and x_test", "differ in width")),
    Case("folder that leads back to itself", "datasets {d}/loop", ("loop", "no images")),
    Case("one number a column", "datasets {d}/wide.csv", ("wide.csv", "f0, f1, f2, f3", '--vector-column "f*"')),
    Case("columns that no name fits", "datasets {d}/wide.csv --vector-column g*", ("'g*'", "f0, f1, f2, f3")),
    Case(
        "columns that hold no numbers", "datasets {d}/prices.csv --vector-column *", ("'shop'", "number in every row")
    ),
    Case("part without a word", "train --data {d}/split.npz --set data.query= --out {d}/x", ("data.query", "one word")),
    Case(
        "part that is two things",
        "train --data {d}/split.npz --set data.validation=holdout --set data.query=holdout --out {d}/x",
        ("'holdout'", "data.query", "data.validation"),
    ),
    Case(
        "labels that are not an array",
        "train --data {d}/no_labels.npy --labels {d}/16.codes",
        ("16.codes", "plain .npy"),
    ),
    Case("more bits than numbers", "train --data {d}/few.npz --method pca --out {d}/x", ("at most 4 bits", "32")),
    Case(
        "too few rows in a class",
        "train --data {d}/few.npz --set data.query_per_class=100 --out {d}/x",
        ("100", "query"),
    ),
    Case(
        "word of the split without a meaning",
        f"train --data {{d}}/split.npz {QUICK} --out {{d}}/x",
        ("holdout (2 rows)", "train (8 rows)", "--set data.validation=holdout"),
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
    Case("not a model folder", "encode {d}/corrupt digits --out {d}/x.codes", ("corrupt", "model.safetensors")),
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
    Case("names that are not there", "search {d}/16.index --row 0 --names {d}/x.codes", ("x.codes is missing",)),
    Case("no index", "search --row 0", ("index", "milvus://")),
    Case("curves of an unknown kind", "evaluate {d}/run --curves {d}/x.bmp", (".png", "x.bmp")),
    Case("truncated index", "search {d}/short.index --row 0", ("short.index", "cut short", "bytes")),
    Case("codes where an index is needed", "search {d}/16.codes --row 0", ("16.codes", "scdh-index", "scdh-codes")),
    Case("query codes of another length", "search {d}/16.index --codes {d}/32.codes", ("32 bits", "16 bits")),
    Case("k = 0", "search {d}/16.index --row 0 -k 0", ("k must", "at least 1", "0")),
    Case("radius below 0", "search {d}/16.index --row 0 --radius -1", ("radius", "-1")),
    Case("id that the index does not hold", "search {d}/16.index --row 99", ("id 99", "0 to 9")),
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
    Case("data changed after training", "evaluate {d}/changed_run", ("changed", "--data")),
    Case("topk that is not a number", "evaluate {d}/run --topk few", ("few", "--topk")),
    Case("run folder already used", "train --preset demo-digits --out {d}/run", ("run", "--resume")),
    Case("resume with other settings", "train --resume --out {d}/run --bits 77", ("method.bits", "not 77")),
    Case("resume of trials with other settings", "train --resume --out {d}/stopped_run --bits 9", ("tried settings",)),
    Case("refit of a run without it", "train --resume --refit --out {d}/run", ("--refit", "run", "another --out")),
    Case("scores of a run in its trials", "evaluate {d}/stopped_run", ("stopped_run", "--resume")),
    Case(
        "codes of a run in its trials", "encode {d}/stopped_run digits --out {d}/x.codes", ("no model yet", "--resume")
    ),
    Case("resume of no folder", "train --resume", ("--out", "--resume")),
    Case("fewer epochs than before", "train --resume --out {d}/photo_run --epochs 0", ("train.epochs", "0")),
    Case(
        "no validation rows to score", "evaluate {d}/run --part validation", ("validation", "data.validation_per_class")
    ),
    Case("resume where no run is", "train --resume --out {d}/corrupt", ("corrupt", "config.json")),
    Case("unknown option", "train --preset demo-digits --bit 4", ("--bit",)),
    Case("unknown command", "tarin", ("tarin",)),
    Case("missing argument", "encode {d}/run --out {d}/x.codes", ("Give a model and data",)),
    Case("unknown choice", "evaluate {d}/run --ties random", ("--ties", "expected")),
    Case("unknown method to describe", "methods scdhx", ("scdhx", "did you mean 'scdh'")),
    Case("data to describe do not exist", "datasets {d}/nowhere", ("nowhere",)),
)


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
