"""Poisoned queries change no weight and no choice: whatever labels, pixels and vectors query rows have."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from scdh.config import load_config
from scdh.data import ArraySource, Source
from scdh.experiments.compare import rates
from scdh.experiments.compare.grid import Grid
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of, source_of
from scdh.training import trials
from scdh.training.plan import plan_run
from scdh.training.search import FULL_LENGTH_TRIALS
from tests.cli.commands import must
from tests.data.data_files import write_parquet
from tests.training.settled import train

CLASSES = ("ant", "bee", "cat")
ROWS = [
    (part, label) for part, count in (("train", 6), ("val", 3), ("test", 3)) for label in CLASSES for _ in range(count)
]
PARTS = np.array([part for part, _ in ROWS])
LABELS = np.array([CLASSES.index(label) for _, label in ROWS])
QUICK: dict[str, Any] = {
    "method.bits": 8,
    "train.epochs": 2,
    "train.batch_size": 8,
    "train.workers": 0,
    "train.augmentation": "none",
}
PHOTOS = QUICK | {"net.backbone": "small_conv", "net.image_size": 16, "net.pretrained": False}
VECTORS = QUICK | {"net.backbone": "features", "net.hidden": [8], "net.standardise": True}


def poison(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and a seed for the content of each row; those of ``part`` are replaced, labels by other existing ones."""
    changed = np.isin(PARTS, part)
    return np.where(changed, (LABELS + 1) % len(CLASSES), LABELS), np.arange(len(ROWS)) + 1000 * changed


def picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8))


def png(path: Path, seed: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed).save(path)
    return path.read_bytes()


def vectors(seeds: np.ndarray) -> np.ndarray:
    return np.stack([np.random.default_rng(seed).normal(size=6) for seed in seeds]).astype(np.float32)


def folder(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    for row, (label, seed) in enumerate(zip(labels, seeds, strict=True)):
        part = {"train": "Train", "val": "dev", "test": "QUERY"}[PARTS[row]]
        png(root / "my photos ü" / part / CLASSES[label] / f"{row:02}.png", seed)
    return PHOTOS | {"data.source": str(root / "my photos ü")}


def csv(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    lines = ["path,label,Split"]
    for row, (label, seed) in enumerate(zip(labels, seeds, strict=True)):
        png(root / "files" / f"{row}.png", seed)
        lines.append(f"files/{row}.png,{CLASSES[label]},{PARTS[row].upper()} ")
    (root / "photos.csv").write_text("\n".join(lines))
    return PHOTOS | {"data.source": str(root / "photos.csv")}


def parquet(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    words = [{"train": "base", "val": "valid", "test": "holdout"}[part] for part in PARTS]
    images = pa.array([png(root / "x.png", seed) for seed in seeds], pa.binary())
    write_parquet(root / "p.parquet", {"image": images, "label": labels, "split": words})
    return PHOTOS | {"data.source": str(root / "p.parquet"), "data.query": "holdout"}


def parquet_files(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    for part in ("train", "val", "test"):
        rows = np.flatnonzero(np.isin(PARTS, part))
        images = pa.array([png(root / "x.png", seed) for seed in seeds[rows]], pa.binary())
        (root / "files").mkdir(exist_ok=True)
        write_parquet(root / "files" / f"bugs-{part}.parquet", {"image": images, "label": labels[rows]})
    return PHOTOS | {"data.source": str(root / "files")}


def npz(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    np.savez(root / "v.npz", X=vectors(seeds), y=labels, split=PARTS)
    return VECTORS | {"data.source": str(root / "v.npz")}


def npz_of_parts(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    arrays = {}
    for part in ("train", "val", "test"):
        rows = np.flatnonzero(np.isin(PARTS, part))
        arrays |= {f"x_{part}": vectors(seeds[rows]), f"y_{part}": labels[rows]}
    np.savez(root / "v.npz", **arrays)
    return VECTORS | {"data.source": str(root / "v.npz")}


def vector_parquet(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    cells = pa.array(vectors(seeds).tolist(), pa.list_(pa.float32()))
    write_parquet(root / "v.parquet", {"embedding": cells, "label": labels, "Subset": PARTS})
    return VECTORS | {"data.source": str(root / "v.parquet")}


def vector_csv(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    rows = zip(vectors(seeds), labels, PARTS, strict=True)
    lines = [f'"{vector.tolist()}",{CLASSES[label]},{part}' for vector, label, part in rows]
    (root / "v.csv").write_text("\n".join(["vector,label,split", *lines]))
    return VECTORS | {"data.source": str(root / "v.csv")}


def parts_below_classes(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    for row, (label, seed) in enumerate(zip(labels, seeds, strict=True)):
        png(root / "photos" / CLASSES[label] / PARTS[row] / f"{row:02}.png", seed)
    return PHOTOS | {"data.source": str(root / "photos")}


def drawn(root: Path, labels: np.ndarray, seeds: np.ndarray) -> dict[str, Any]:
    np.save(root / "v.npy", vectors(seeds))
    np.save(root / "y.npy", labels)
    return VECTORS | {"data.source": str(root / "v.npy"), "data.labels": str(root / "y.npy")}


SOURCES = [folder, parts_below_classes, csv, parquet, parquet_files, npz, npz_of_parts, vector_parquet, vector_csv]


def weights(make: Callable[..., dict[str, Any]], root: Path, part: str, **more: Any) -> str:
    """The fingerprint of a model trained on data with a poisoned part ("" for none)."""
    root.mkdir()
    config = load_config(overrides=make(root, *poison(part)) | more)
    return train(config, None, quiet=True).fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
def test_a_marked_query_changes_no_weight(make: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    last = {"train.keep": "last"}  # otherwise validation rows choose the epoch
    clean, *poisoned = (weights(make, tmp_path / f"of {part}", part, **last) for part in ("", "test", "val", "train"))
    assert poisoned[:2] == [clean, clean]
    assert poisoned[2] != clean  # poison is seen where it may be


@pytest.mark.parametrize(
    ("split", "method"),
    [("auto", "mt_scdh"), ("given", "itq"), ("draw", "scdh"), ("draw", "mt_scdh"), ("all", "itq"), ("all", "scdh")],
)
def test_whatever_else_is_set(split: str, method: str, tmp_path: Path) -> None:
    more = {"data.split": split, "method.name": method, "method.bits": 4, "data.labelled_per_class": 4}
    clean = weights(npz, tmp_path / "clean", "", **more)
    assert weights(npz, tmp_path / "queries", "test", **more) == clean
    assert weights(npz, tmp_path / "training", "train", **more) != clean


@pytest.mark.slow
def test_features_of_a_frozen_network(tmp_path: Path) -> None:
    more = {"net.freeze": True, "net.views": 2, "train.augmentation": "crop"}
    clean = weights(folder, tmp_path / "clean", "", **more)
    assert weights(folder, tmp_path / "queries", "test", **more) == clean
    assert weights(folder, tmp_path / "training", "train", **more) != clean


def swap_query_labels(source: Source, settings: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query rows of a drawn split, all labels, and the labels after swaps between queries that leave the split alone.

    Which rows are drawn depends on all labels, so not every swap does.
    """
    config = load_config(overrides=settings)
    before = protocol_of(config, source)
    clean, labels, rows = source.labels.copy(), source.labels, before.query
    for one in rows:
        for other in rows:
            if labels[one] != labels[other]:
                labels[[one, other]] = labels[[other, one]]
                after = protocol_of(config, source)
                if not all(
                    np.array_equal(getattr(before, p), getattr(after, p)) for p in ("train", "validation", "query")
                ):
                    labels[[one, other]] = labels[[other, one]]
    return rows, clean, labels


def test_a_drawn_query_changes_no_weight(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    (tmp_path / "poisoned").mkdir()
    seeds = np.arange(len(ROWS))
    settings = drawn(tmp_path / "clean", LABELS, seeds)
    rows, clean, labels = swap_query_labels(source_of(load_config(overrides=settings)), settings)
    assert (labels[rows] != clean[rows]).sum() >= 2
    assert np.array_equal(np.delete(labels, rows), np.delete(clean, rows))
    seeds[rows] += 1000
    poisoned = drawn(tmp_path / "poisoned", labels, seeds)
    models = [train(load_config(overrides=chosen), None, quiet=True) for chosen in (settings, poisoned)]
    assert models[0].fingerprint() == models[1].fingerprint()


@pytest.mark.parametrize("kind", ["vectors", pytest.param("images", marks=pytest.mark.slow)])
@pytest.mark.parametrize("split", ["auto", "draw"])
def test_queries_in_memory_change_no_weight(kind: str, split: str) -> None:
    def model(part: str) -> str:
        labels, seeds = poison(part)
        content = vectors(seeds) if kind == "vectors" else np.stack([np.asarray(picture(seed)) for seed in seeds])
        source = ArraySource(content, labels, list(CLASSES), split=PARTS)
        config = load_config(overrides={**(VECTORS if kind == "vectors" else PHOTOS), "data.split": split})
        return train(config, None, quiet=True, source=source).fingerprint()

    assert model("test") == model("")
    assert model("train") != model("")


@pytest.mark.parametrize("several", [False, True], ids=["one label", "many labels"])
@pytest.mark.parametrize("method", ["scdh", "csq", "itq"])
def test_a_label_that_only_queries_have_adds_no_class(several: bool, method: str) -> None:
    def model(part: str, new_labels: tuple[str, ...]) -> Hasher:
        """New labels that sort before the others take their numbers, and ``part`` has them."""
        names = sorted([*CLASSES, *new_labels])
        labels = np.array([names.index(CLASSES[label]) for label in LABELS])
        for number, row in enumerate(np.flatnonzero(np.isin(PARTS, part)) if new_labels else ()):
            labels[row] = names.index(new_labels[number % len(new_labels)])
        hot = np.eye(len(names), dtype=np.uint8)[labels]
        source = ArraySource(vectors(np.arange(len(ROWS))), hot if several else labels, names, split=PARTS)
        own = {"method.name": method, "method.bits": 4}
        return train(load_config(overrides=VECTORS | own), None, quiet=True, source=source)

    clean, poisoned = model("test", ()), model("test", ("aardvark", "bat"))
    assert poisoned.label_names == clean.label_names == list(CLASSES)
    assert poisoned.fingerprint() == clean.fingerprint()
    assert model("train", ("aardvark", "bat")).label_names == ["aardvark", *CLASSES[:1], "bat", *CLASSES[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("make", [npz, folder], ids=lambda make: make.__name__)
def test_a_comparison_sees_no_query(make: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = []
    for part in ("", "test"):
        root = tmp_path / (part or "clean")
        root.mkdir()
        settings = {"data.labelled_per_class": 4} | make(root, *poison(part))
        data = ["--data", settings.pop("data.source")]
        del settings["method.bits"]
        chosen = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
        tried = ["--tune", "train.lr_head=0.01,0.05", "--seeds", "0", "--bits", "4"]
        methods = ["scdh", "mt_scdh", "dsh", "itq"] if make is npz else ["mt_scdh", "itq"]
        must(["compare", *methods, *data, *chosen, *tried, "--out", str(root / "out")])
        cells = sorted((root / "out").glob("**/cells/*"))
        found.append({cell.relative_to(root): RunFolder(cell).load_model().fingerprint() for cell in cells})
    assert len(found[0]) >= (8 if make is npz else 4)
    assert found[0] == found[1]


GIVEN: dict[str, Any] = {"data.source": "made-up", "net.hidden": [8], "method.bits": 8, "train.epochs": 2}


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LEAST_VALIDATION_ROWS", 9)
    monkeypatch.setattr(rates, "RATES", (0.001, 0.03))


def source(part: str) -> ArraySource:
    labels, seeds = poison(part)
    return ArraySource(vectors(seeds), labels, list(CLASSES), name="made-up", split=PARTS)


@pytest.mark.parametrize("method", ["scdh", "mt_scdh"])
@pytest.mark.parametrize("refit", [False, True])
def test_trials_and_the_run_that_follows(method: str, refit: bool) -> None:
    def found(part: str) -> tuple[list[float | None], str]:
        data = source(part)
        given = {**GIVEN, "method.name": method, "data.labelled_per_class": 4}
        plan = plan_run(load_config(overrides=given), source=data, refit=refit)
        config = plan.finish(None, quiet=True)
        scores = [trial.validation_map for trial in plan.choices.trials]
        return scores, train(config, None, source=data, quiet=True).fingerprint()

    clean, validation = found(""), found("val")
    assert len(clean[0]) >= 5
    assert found("test") == clean
    assert validation[0] != clean[0]
    assert found("train")[1] != clean[1]
    assert not refit or validation[1] != clean[1]  # these rows train then


def test_rates_of_a_comparison(tmp_path: Path) -> None:
    settings = {key: value for key, value in GIVEN.items() if key != "method.bits"}

    def tried(part: str) -> dict[str, list[float | None]]:
        grid = Grid(("scdh", "mt_scdh", "dpsh", "itq"), (8,), (0,), settings=settings)
        found = rates.own_rates(grid, source(part), tmp_path / f"of {part}", tmp_path / "features", lambda _: None)[1]
        return {name: [trial.validation_map for trial in result.tried] for name, result in found.items()}

    clean = tried("")
    assert {name: len(scores) for name, scores in clean.items()} == dict.fromkeys(
        ("scdh", "mt_scdh", "dpsh"), 2 + FULL_LENGTH_TRIALS
    )
    assert tried("test") == clean
    assert tried("val") != clean


@pytest.mark.parametrize("form", ["numbers", "tags", "lists"])
def test_query_labels_of_another_form(form: str, tmp_path: Path) -> None:
    """The training rows decide what a text column holds (numbers, lists, commas), and so the order of the labels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 6)).round(3)

    def cell(row: int) -> str:
        if form == "numbers":
            return str(row % 12)
        tags = [f"t{tag}" for tag in rng.choice(9, size=3, replace=False)]
        return str(tags) if form == "lists" else ", ".join(tags)

    clean = [cell(row) for row in range(160)]

    def weights(poison: list[str], name: str) -> str:
        labels = clean[:120] + poison
        rows = zip(x, labels, strict=True)
        lines = [f'"{v.tolist()}","{label}",{"train" if i < 120 else "test"}' for i, (v, label) in enumerate(rows)]
        (tmp_path / name).write_text("\n".join(["vector,label,split", *lines]))
        config = load_config(overrides={"data.source": str(tmp_path / name), **VECTORS})
        with pytest.warns(UserWarning, match="separated by commas") if form == "tags" else nullcontext():
            return train(config, None, quiet=True).fingerprint()

    expected = weights(clean[120:], "c.csv")
    assert weights([f"poison, {i}" for i in range(40)], "p.csv") == expected
    assert weights([f"poison | {i}" for i in range(40)], "s.csv") == expected
    assert weights(["-1"] * 40, "n.csv") == weights([""] * 40, "e.csv")


@pytest.mark.slow
def test_splits_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))})

    def weights(part: str) -> str:
        labels, seeds = poison(part)

        def rows_of(word: str) -> Any:
            rows = np.flatnonzero(np.isin(PARTS, word))
            columns = {"image": [picture(seed) for seed in seeds[rows]], "label": labels[rows]}
            return datasets.Dataset.from_dict(columns, features=features)

        splits = {"train": rows_of("train"), "validation": rows_of("val"), "test": rows_of("test")}
        monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.DatasetDict(splits))
        return train(load_config(overrides=PHOTOS | {"data.source": "hf:some/bugs"}), None, quiet=True).fingerprint()

    clean = weights("")
    assert weights("test") == clean
    assert weights("train") != clean
