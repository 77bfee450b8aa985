"""Poisoned queries change no choice: neither trials and the run that follows, nor rates of a comparison."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data import ArraySource
from scdh.experiments.compare import rates
from scdh.experiments.compare.grid import Grid
from scdh.training import trials
from scdh.training.plan import plan_run
from scdh.training.search import FULL_LENGTH_TRIALS
from tests.training.settled import train
from tests.training.test_leaks import CLASSES, PARTS, PHOTOS, VECTORS, picture, poison, vectors

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
