"""Ten kinds of data as people have them, with defaults alone: ``python -m benchmarks.kinds_of_data``.

The data come inside packages: scikit-learn's digits as vectors, and photos of groceries made small; only the vectors
of 20,000 classes are made up. Each kind is written to a temporary folder, then `scdh train` and `scdh evaluate` run on
it as a user would run them, without a setting. Printed as a Markdown table: the command, the counts it printed, and MAP
of the queries by codes and by the floats behind them, or the sentence that was said instead. `--kinds capitals nested`
runs some; `--classes 2000` makes the last kind smaller, as it takes most of the time.
"""

import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 96  # of photos
BITS = 32
SPLIT = re.compile(r"Split: (.*?) rows \((.*?)\)\.(?=\s|$)", re.S)
SAID = re.compile(r"(?:Warning|Error|Note):.*", re.S)


@dataclass(frozen=True)
class Kind:
    """``make`` writes data into a folder and returns what `--data` gets; ``options`` are the rest of the command."""

    title: str
    make: Callable[[Path], str]
    options: tuple[str, ...] = ()


@dataclass
class Outcome:
    command: str
    counts: str = "–"
    said: list[str] = field(default_factory=list)
    result: str = ""
    seconds: float = 0.0


def photos(per_class: int, classes: int) -> Iterator[tuple[str, int, Image.Image]]:
    """Class, number within the class and photo, of the first classes of the groceries that have enough photos."""
    from scdh.data.open import open_source

    source = open_source("groceries", label_column="finegrained_cat")
    counts = np.bincount(source.labels, minlength=source.num_classes)
    for label in np.flatnonzero(counts >= per_class)[:classes]:
        for number, row in enumerate(np.flatnonzero(source.labels == label)[:per_class]):
            yield source.label_names[label], number, source.image(int(row)).resize((SIDE, SIDE))


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32), labels


def save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, "JPEG")


def capitals(folder: Path) -> str:
    for label, number, image in photos(20, 6):
        part = "TEST" if number < 4 else "Val" if number < 8 else "Train"
        save(image, folder / "Shop" / part / label / f"IMG_{number:04}.JPG")
    return "Shop"


def nested(folder: Path) -> str:
    for label, number, image in photos(20, 6):
        save(image, folder / "photos" / label / f"2024-{number % 3 + 1:02}" / f"shelf {number % 2}" / f"{number}.jpg")
    return "photos"


def tags(folder: Path) -> str:
    """Three tags of each photo in one cell: its class, and two that it shares with photos of other classes."""
    with (folder / "tags.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["filename", "tags"])
        for label, number, image in photos(20, 6):
            save(image, folder / "images" / f"{label}-{number}.jpg")
            shelf, size = ("top", "middle", "bottom")[number % 3], ("small", "large")[number % 2]
            rows.writerow([f"images/{label}-{number}.jpg", f"{label}, {shelf}, {size}"])
    return "tags.csv"


def image_bytes(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[object]] = {"image": [], "label": []}
    for label, _, image in photos(20, 6):
        content = io.BytesIO()
        image.save(content, "JPEG")
        columns["image"].append(content.getvalue())
        columns["label"].append(label)
    pq.write_table(pa.table(columns), folder / "photos.parquet")
    return "photos.parquet"


def embeddings(folder: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors, labels = digits()
    ids = [f"SKU-{row}" for row in range(len(labels))]
    table = pa.table({"id": ids, "embedding": vectors.tolist(), "label": [f"digit {label}" for label in labels]})
    pq.write_table(table, folder / "items.parquet")
    return "items.parquet"


def npz_split(folder: Path) -> str:
    vectors, labels = digits()
    split = np.array(["train"] * 7 + ["val"] + ["test"] * 2)[np.arange(len(labels)) % 10]
    np.savez(folder / "split.npz", X=vectors, y=labels, split=split)
    return "split.npz"


def one_photo_classes(folder: Path) -> str:
    """Four classes of 20 photos, and 40 classes of a single one."""
    for index, (label, number, image) in enumerate(photos(20, 6)):
        name = label if index < 80 else f"single {index}"
        save(image, folder / "photos" / name / f"{number}.jpg")
    return "photos"


def half_unlabelled(folder: Path) -> str:
    vectors, labels = digits()
    labels[np.random.default_rng(0).permutation(len(labels))[: len(labels) // 2]] = -1
    np.savez(folder / "half.npz", X=vectors, y=labels)
    return "half.npz"


def one_class(folder: Path) -> str:
    for label, number, image in photos(60, 1):
        save(image, folder / "photos" / label / f"{number}.jpg")
    return "photos"


def pairs(classes: int) -> Callable[[Path], str]:
    """Two rows of each class; 24 of 64 numbers tell the class, the others are noise as large as these."""

    def make(folder: Path) -> str:
        rng = np.random.default_rng(0)
        labels = rng.permutation(np.repeat(np.arange(classes), 2))
        vectors = rng.normal(size=(2 * classes, 64)).astype(np.float32)
        centres = rng.normal(size=(classes, 24))
        vectors[:, :24] = centres[labels] + 0.3 * rng.normal(size=(2 * classes, 24))
        np.savez(folder / "many.npz", X=vectors, y=labels)
        return "many.npz"

    return make


def kinds(classes: int) -> dict[str, Kind]:
    return {
        "capitals": Kind("folder with capitals (Train, TEST, Val, .JPG)", capitals),
        "nested": Kind("nested folders", nested),
        "tags": Kind("CSV, one cell of tags", tags),
        "tags-separator": Kind("the same, separator given", tags, ("--label-separator", ",")),
        "image-bytes": Kind("parquet with image bytes", image_bytes),
        "embeddings": Kind("parquet with embeddings", embeddings),
        "npz-split": Kind("npz with split", npz_split),
        "one-photo": Kind("one-photo classes (40 of 44)", one_photo_classes),
        "half": Kind("half unlabelled", half_unlabelled),
        "one-class": Kind("1 class", one_class),
        "many": Kind(f"{classes:,} classes, two rows each", pairs(classes)),
    }


def scdh(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and messages of a command in ``folder``, each message on one line."""
    environment = {**os.environ, "COLUMNS": "10000"}
    command = [sys.executable, "-m", "scdh", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def run(kind: Kind, folder: Path) -> Outcome:
    """Make the data, train and evaluate."""
    data = kind.make(folder)
    arguments = ("train", "--data", data, *kind.options, "--bits", str(BITS), "--out", "run")
    quoted = " ".join(f'"{word}"' if word == "," else word for word in arguments)
    outcome, started = Outcome(f"scdh {quoted}"), time.perf_counter()
    code, out, err = scdh(folder, *arguments)
    outcome.seconds = time.perf_counter() - started
    if found := SPLIT.search(out):
        outcome.counts = f"{found[1]} ({found[2]})"
    outcome.said += messages(err)
    if code:
        outcome.result = "refused"
        return outcome
    code, out, err = scdh(folder, "evaluate", "run", "--json")
    outcome.said += messages(err)
    if code:
        outcome.result = "not scored"
        return outcome
    scores = json.loads(out)
    floats = f"{scores['floats']['map']:.3f}" if "floats" in scores else "–"
    outcome.result = f"MAP {scores['map']:.3f}, floats {floats}"
    outcome.said += [scores["advice"]] if "advice" in scores else []
    if "unlabelled_items" in scores:
        outcome.said.append(f"{scores['unlabelled_items']:,} items have no label and count as wrong wherever found")
    return outcome


def messages(err: str) -> list[str]:
    """Warnings and errors, without the lines of progress."""
    return [line.strip() for line in err.splitlines() if SAID.search(line)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--kinds", nargs="+", choices=list(kinds(0)), default=list(kinds(0)))
    parser.add_argument("--classes", type=int, default=20_000, help="classes of the last kind")
    options = parser.parse_args()
    print("| data | command | counts printed | result | seconds to train |\n|---|---|---|---|---|")
    for name in options.kinds:
        kind = kinds(options.classes)[name]
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(kind, Path(folder))
        result = "; ".join([outcome.result, *outcome.said]).replace("|", "\\|")
        cells = (kind.title, f"`{outcome.command}`", outcome.counts, result, f"{outcome.seconds:.0f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
