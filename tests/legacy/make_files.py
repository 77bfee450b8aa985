"""Make the files of an earlier version that ``test_old_files.py`` opens; see README.md in this folder.

Runs with the earlier version of scdh, not with the present one: it uses that version's command line and module names.
"""

import contextlib
import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import scdh.training.loop as loop
from scdh import Codes, HammingIndex, Hasher
from scdh.cli.app import main
from scdh.index.store import IndexWriter

SETTINGS = [
    *("net.backbone=features", "net.hidden=[8]", "net.dropout=0.1"),
    *("train.batch_size=16", "train.optimiser=adamw", "train.lr_trunk=0.02", "train.lr_head=0.02"),
    *("train.schedule=cosine", "train.augmentation=none"),
]
DATA = ["data.source=digits.npz", "data.split=draw", "data.query_per_class=3"]
OWN_SETTINGS = {
    "scdh": ["data.validation_per_class=3"],  # so that there is a best epoch
    "mt_scdh": ["data.labelled_per_class=6"],  # so that there are rows without label
}
RESUMED = ("scdh", "scdh_c", "dpsh", "csq")
MODELS = ("scdh", "mt_scdh", "scdh_s", "scdh_c", "dsh", "dpsh", "ninh", "csq")
BITS = {"scdh": 12, "csq": 16, "mt_scdh": 16, "ninh": 6}
ROWS_PER_CLASS, ENCODED_ROWS, QUERIES = 16, 50, 10
SCORES = ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_k", "l_q")
# What no command reads again, by path below the folder of the files.
NOT_NEEDED = [
    *("**/tensorboard", "**/features", "**/.running", "runs/*/last", "runs/*/best", "runs/*/steps.csv"),
    *("runs/*/last.safetensors", "runs/digits/codes", "runs/digits/per_query.npz", "compared/cells/scdh*/codes"),
    *("compared/plots", "compared/compare.html", "compared/cells/*/last.safetensors", "compared/cells/*/steps.csv"),
    *("index/database.codes*", "all"),
]


def scdh(*arguments: str, code: int = 0) -> str:
    """Run one command in this process and return what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main(arguments)
        except SystemExit as end:
            if end.code != code:
                raise
    return out.getvalue()


def set_options(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def train(method: str, out: Path, epochs: int = 4, code: int = 0) -> None:
    options = set_options(*DATA, *SETTINGS, *OWN_SETTINGS.get(method, []))
    bits = str(BITS.get(method, 13))
    scdh("train", "--config", "empty.toml", "--method", method, "--bits", bits, "--epochs", str(epochs), *options,
         "--out", str(out), code=code)  # fmt: skip


def interrupt_after(epochs: int) -> contextlib.AbstractContextManager:
    """Training stops as by Ctrl-C once so many checkpoints were written."""

    @contextlib.contextmanager
    def patched():
        save, count = loop.save_checkpoint, 0

        def save_then_stop(*arguments, **options):
            nonlocal count
            save(*arguments, **options)
            count += 1
            if count == epochs:
                raise KeyboardInterrupt

        loop.save_checkpoint = save_then_stop
        try:
            yield
        finally:
            loop.save_checkpoint = save

    return patched()


def clean(folder: Path) -> None:
    for pattern in NOT_NEEDED:
        for path in [*folder.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def code_bits(model: Path, rows: np.ndarray) -> list[str]:
    """The codes of the rows as texts of 0 and 1."""
    return ["".join(map(str, row)) for row in Hasher.load(model).encode(rows).unpack().astype(int)]


def losses(log: Path) -> list[float]:
    with log.open() as lines:
        return [float(row["loss"]) for row in csv.DictReader(lines)]


def hits(index: HammingIndex, queries: Codes) -> dict:
    queries = Codes(queries.packed[:QUERIES], queries.bits)
    nearest, ball = index.search(queries, k=7), index.within(queries, radius=2)
    return {
        "ids": nearest.ids.tolist(),
        "distances": nearest.distances.tolist(),
        "within_counts": ball.counts.tolist(),
        "within_ids": ball.ids.tolist(),
    }


def scores_of(run: str) -> dict:
    scores = json.loads(scdh("evaluate", run, "--json"))
    chosen = {name: scores[name] for name in SCORES}
    return {**chosen, "student_map": scores["student"]["map"]} if "student" in scores else chosen


def make_index_files(expected: dict) -> None:
    scdh("encode", "models/scdh", "digits.npz", "--out", "index/all.codes")
    for part in ("query", "database"):
        scdh("encode", "runs/scdh", "digits.npz", "--part", part, "--out", f"index/{part}.codes")
    scdh("index", "index/all.codes", "--out", "index/all.index")
    scdh("index", "index/database.codes", "--out", "index/changed.index")
    with IndexWriter("index/changed.index") as writer:
        writer.remove(writer.segments[0].ids[3:40:2])
    scdh("index", "index/query.codes", "--out", "index/changed.index", "--append")
    queries = Codes.load("index/query.codes")
    for name in ("all", "changed"):
        index = HammingIndex.load(f"index/{name}.index")
        answers = scdh("search", f"index/{name}.index", "--codes", "index/query.codes", "-k", "3", "--json")
        by_row = scdh("search", f"index/{name}.index", "--row", str(queries.ids[0]), "-k", "5", "--json")
        expected["index"][name] = {
            "items": len(index),
            "hits": hits(index, queries),
            "search": json.loads(answers)["queries"][:QUERIES],
            "search_by_row": json.loads(by_row)["queries"],
        }


def make(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chdir(folder)
    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.target == label)[:ROWS_PER_CLASS] for label in range(10)])
    np.savez_compressed("digits.npz", X=digits.data[rows].astype(np.float32), y=digits.target[rows])
    vectors = np.load("digits.npz")["X"][:: len(rows) // ENCODED_ROWS][:ENCODED_ROWS]
    Path("empty.toml").write_text("")
    expected: dict = {"models": {}, "losses": {}, "index": {}, "scores": {}}

    for method in MODELS:
        train(method, Path("all") / method)
        shutil.copytree(Path("all") / method / "model", Path("models") / method)
        expected["models"][method] = code_bits(Path("models") / method, vectors)
        expected["losses"][method] = losses(Path("all") / method / "log.csv")
    about = json.loads((Path("all") / "scdh" / "model" / "config.json").read_text())
    if about["info"]["best_epoch"] <= 2:
        raise SystemExit("The best epoch came before the interruption, so resuming would not be tested.")
    for method in ("scdh", "mt_scdh"):
        shutil.copytree(Path("all") / method, Path("runs") / method)
        expected["scores"][method] = scores_of(f"runs/{method}")
    for method in RESUMED:
        with interrupt_after(2):
            train(method, Path("interrupted") / method, code=130)
    Path("index").mkdir()
    make_index_files(expected)
    # The built-in digits are split and scored as well, as their rows are not stored here.
    scdh("train", "--preset", "demo-digits", "--epochs", "2", "--bits", "12",
         *set_options("net.hidden=[8]", "train.lr_trunk=0.02", "train.lr_head=0.02"),
         "--out", "runs/digits")  # fmt: skip
    expected["scores"]["digits"] = scores_of("runs/digits")
    compared = ["--config", "empty.toml", "--bits", "12", "--seeds", "0", "--epochs", "2"]
    compared += set_options(*DATA, *SETTINGS)
    scdh("compare", "scdh", "itq", "lsh", *compared, "--out", "compared")
    expected["compare_options"] = compared

    clean(Path("."))
    Path("expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
