"""Comparisons end to end on digits: numbers, resuming, sharing, refusals, equal budgets, tuning, the page."""

import csv
import json
import signal
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scdh.data.open import open_source
from scdh.errors import ConfigError, TrainingError
from scdh.experiments.compare import budget, tuning
from scdh.experiments.compare import cell as cells
from scdh.experiments.compare.budget import epochs_within
from scdh.experiments.compare.grid import Grid, split_own
from scdh.experiments.compare.page import as_markdown, write_page
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.summary import rows_of, shared_target, time_to
from scdh.experiments.compare.tables import score_words
from scdh.training import features as trunk_features
from tests.command_line import run_scdh as run
from tests.command_line import scdh_output as must
from tests.data.data_files import write_pictures

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

TINY = "--preset demo-digits --epochs 2 --set net.hidden=[32] --set train.batch_size=128"
HELD = "--set data.validation_per_class=5"
SHORT = f"scdh mt_scdh itq lsh {TINY} {HELD} --seeds 0,1 --bits 8"
ASKED = f"{SHORT},16"
METHODS, BITS, SEEDS = ("scdh", "mt_scdh", "itq", "lsh"), (8, 16), (0, 1)
NAMES = [f"{method}-{bits}-{seed}" for method in METHODS for bits in BITS for seed in SEEDS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison that nothing disturbed."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("compared") / "whole"
    must(f"compare {ASKED} --out {out}")
    return out


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def scores_of(out: Path) -> dict[str, Any]:
    kept = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "precision_at_k", "protocol")
    files = sorted((out / "cells").glob("*/scores*.json"))
    return {f"{file.parent.name}/{file.name}": {key: read(file)[key] for key in kept} for file in files}


def state(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in sorted(folder.rglob("*")) if file.is_file()}


def test_numbers_are_those_of_the_cells(whole: Path) -> None:
    found = read(whole / "compare.json")
    assert {path.name for path in (whole / "cells").iterdir()} == set(NAMES)
    for row in found["rows"]:
        name = "scores_student.json" if row["student"] else "scores.json"
        of = [read(whole / "cells" / f"{row['method']}-{row['bits']}-{seed}" / name) for seed in SEEDS]
        for key in ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls"):
            one, two = (scores[key] for scores in of)
            assert row[key] == pytest.approx((one + two) / 2, rel=1e-12)
            assert row[f"{key}_std"] == pytest.approx(abs(one - two) / 2**0.5, rel=1e-9, abs=1e-15)
        text = f"{row['map']:.3f} ± {row['map_std']:.3f}"
        for file in ("compare.md", "compare.html"):
            assert text in (whole / file).read_text("utf-8")
    titles = list(dict.fromkeys(row["title"] for row in found["rows"]))
    means = [statistics.fmean(row["map"] for row in found["rows"] if row["title"] == title) for title in titles]
    assert means == sorted(means, reverse=True)
    assert {"MT-SCDH", "MT-SCDH (student)"} <= set(titles)
    assert len(titles) == 5
    prints = {(entry["seed"], entry["protocol"]["fingerprint"]) for entry in found["cells"]}
    assert len(prints) == len(SEEDS)  # all methods and lengths of a seed have one split


@pytest.mark.parametrize("cell", ["scdh-16-0", "mt_scdh-8-1", "itq-16-1"])
def test_evaluate_agrees_with_the_table(whole: Path, cell: str) -> None:
    entries = [entry for entry in read(whole / "compare.json")["cells"] if entry["cell"] == cell]
    content = json.loads(must(f"evaluate {whole}/cells/{cell} --json"))
    said = [content, *([content["student"]] if "student" in content else [])]
    assert len(said) == len(entries) == (2 if cell.startswith("mt") else 1)
    for one, entry in zip(said, entries, strict=True):
        for key in ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "definition"):
            assert one[key] == entry[key]


def test_a_second_call_does_nothing(whole: Path) -> None:
    before, results = state(whole / "cells"), read(whole / "compare.json")
    code, out, _ = run(f"compare {ASKED} --out {whole} --json")
    assert code == 0
    assert json.loads(out) == results == read(whole / "compare.json")
    assert state(whole / "cells") == before


def test_other_scores_in_a_cell_do_not_get_into_the_table(whole: Path) -> None:
    results, log = read(whole / "compare.json"), (whole / "cells/scdh-8-0/log.csv").stat().st_mtime_ns
    must(f"evaluate {whole}/cells/scdh-8-0 --topk 10")
    must(f"evaluate {whole}/cells/lsh-8-0 --radius 1")
    assert json.loads(must(f"compare {ASKED} --out {whole} --topk 100 --json"))["definition"]["topk"] == 100
    again = json.loads(must(f"compare {ASKED} --out {whole} --json"))
    same = ("map", "precision_at_radius", "empty_balls", "definition")
    assert [[e[key] for key in same] for e in again["cells"]] == [[e[key] for key in same] for e in results["cells"]]
    assert (whole / "cells/scdh-8-0/log.csv").stat().st_mtime_ns == log  # scored again, not trained again


HANGS_IN_THE_SECOND_CELL = """
import sys, time
import scdh.training.loop as loop
from scdh.cli import main

save, saved = loop.save_checkpoint, []
def hang(*given):
    save(*given)
    saved.append(1)
    if len(saved) == 3:
        print("hangs", flush=True)
        time.sleep(600)
loop.save_checkpoint = hang
main(sys.argv[1:])
"""
WAITS_IN_ITS_FIRST_CELL = """
import sys, time
from pathlib import Path
from scdh.cli import main
from scdh.experiments.compare.cell import Bench

learn = Bench._learn_and_score
def slow(self, cell, folder):
    print(cell.name, flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    learn(self, cell, folder)
Bench._learn_and_score = slow
main(sys.argv[2:])
"""


def test_killed_resumed_and_shared_it_comes_out_the_same(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, command = tmp_path / "shared", ["compare", *SHORT.split(), "--out", str(tmp_path / "shared")]
    with subprocess.Popen(
        [sys.executable, "-c", HANGS_IN_THE_SECOND_CELL, *command], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "hangs\n"
        killed.send_signal(signal.SIGKILL)
    names = [name for name in NAMES if "-8-" in name]
    done = [name for name in names if (out / "cells" / name / "scores.json").exists()]
    assert done == ["scdh-8-0"]
    assert (out / "cells/mt_scdh-8-0/last.safetensors").exists()  # half way

    mine: list[str] = []
    learn = cells.Bench._learn_and_score

    def told(self: Any, cell: Any, folder: Path) -> None:
        mine.append(cell.name)
        learn(self, cell, folder)

    monkeypatch.setattr(cells.Bench, "_learn_and_score", told)
    go = tmp_path / "go"
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_IN_ITS_FIRST_CELL, str(go), *command], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        taken = other.stdout.readline().strip()
        code, text, remarks = run(command)  # does all the rest meanwhile
        assert code == 0
        assert f"Not done yet: {taken}." in text
        assert f"Another process is still at {taken}" in remarks
        assert read(out / "compare.json")["missing"] == [taken]
        assert taken in (out / "compare.html").read_text("utf-8")
        assert f"- **Not done yet.** {taken.replace('_', chr(92) + '_')}." in (out / "compare.md").read_text("utf-8")
        go.touch()
        rest = other.stdout.read()
        assert other.wait() == 0
    assert taken == "mt_scdh-8-0"
    assert sorted([*done, taken, *mine]) == sorted(names)  # each once
    assert not any(line in names for line in rest.splitlines())
    assert scores_of(out) == {name: scores for name, scores in scores_of(whole).items() if "-8-" in name}
    assert read(out / "compare.json")["missing"] == []  # by the other process, which ended last


def test_a_folder_of_another_comparison_is_refused(whole: Path) -> None:
    before = state(whole)
    code, _, said = run(f"compare {ASKED} --set train.lr_head=0.5 --out {whole}")
    assert code == 2
    assert "train.lr_head" in said
    assert said.count("\n") == 1
    code, _, said = run(f"compare {ASKED} --out {whole} --set method.lam=0.1")  # not all methods have it
    assert (code, said.count("\n")) == (2, 1)
    assert state(whole) == before


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (f"scdhh {TINY}", "did you mean 'scdh'"),
        (f"scdh scdh {TINY}", "all different"),
        (f"scdh {TINY} --bits 8,8", "all different"),
        (f"scdh {TINY} --bits 8,x", "--bits"),
        (f"scdh {TINY} --bits 0", "--bits"),
        (f"scdh {TINY} --seeds -1", "--seeds"),
        (f"scdh {TINY} --seconds 3", "not both"),
        ("scdh --preset demo-digits --set train.epochs=3 --seconds 3", "not both"),
        ("scdh --preset demo-digits --seconds 0", "--seconds"),
        (f"scdh {TINY} --set train.epochs=3", "given twice"),
        (f"scdh {TINY} --set train.lr_head=1 --set train.lr_head=2", "given twice"),
        (f"scdh {TINY} --topk 0", "--topk"),
        (f"scdh {TINY} --target 2", "--target"),
        (f"scdh {TINY} --target 0.5", "validation"),
        (f"scdh {TINY} --tune train.lr_head", "--tune looks like"),
        (f"scdh {TINY} --tune train.lr_head=1,,2", "--tune looks like"),
        (f"scdh {TINY} {HELD} --tune train.lr_head=1,1", "different"),
        (f"scdh {TINY} --tune train.lr_head=0.1,1", "data.validation_per_class"),
        (f"scdh {TINY} {HELD} --tune method.nothing=0.1,1", "method.nothing"),
        (f"scdh {TINY} {HELD} --tune train.lr_haed=0.1,1", "did you mean 'train.lr_head'"),
        (f"scdh {TINY} {HELD} --tune train.epochs=1,2", "same for every method"),
        (f"scdh {TINY} {HELD} --tune train.lr_head=1,2 --set scdh:train.lr_head=1", "set or tuned"),
        (f"itq {TINY} {HELD} --tune train.lr_head=1,2", "nothing to tune"),
        (f"scdh {TINY} --set dsh:train.lr_head=1", "dsh"),
        (f"scdh {TINY} --set scdh:data.train_per_class=5", "same for every method"),
        (f"scdh {TINY} --set scdh:method.bits=5", "same for every method"),
        (f"scdh {TINY} --set method.bits=5", "--bits"),
        (f"scdh {TINY} --set scdh:train.batch_size=8", "same for every method"),
        (f"scdh mt_scdh {TINY} --set train.ema=0.9", "train.ema=0"),
        (f"scdh {TINY} --set data.split=all", "no queries"),
        (f"{TINY}", "Name the methods"),
        ("scdh", "--data"),
    ],
)
def test_wrong_words_are_one_sentence(asked: str, words: str, tmp_path: Path) -> None:
    code, _, said = run(f"compare {asked} --out {tmp_path}/c")
    assert code == 2
    assert words in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("c/cells/*"))


def test_settings_of_one_method_reach_only_it() -> None:
    common, own = split_own(["train.momentum=0.5", "dsh:train.lr_head=0.3", "data.root=a:b"])
    assert (common, own) == (["train.momentum=0.5", "data.root=a:b"], {"dsh": ["train.lr_head=0.3"]})
    grid = Grid(("scdh", "dsh"), (8,), (0,), "demo-digits", own={"dsh": {"train.lr_head": 0.3}}).check()
    rates = [grid.config(name, 8, 0, None).train.lr_head for name in grid.methods]
    assert rates == [0.002, 0.3]


def test_a_run_that_fails_leaves_the_others(tmp_path: Path) -> None:
    """SCDH diverges; ITQ cannot give more bits than there are features."""
    diverges = "--set scdh:train.lr_head=1e30 --set scdh:train.lr_trunk=1e30"
    shown = must(f"compare scdh dsh itq lsh {TINY} --bits 65 --seeds 0 {diverges} --out {tmp_path}/c")
    assert "scdh-65-0 failed: The loss is not a finite number" in shown
    assert "itq-65-0 failed: ITQ gives at most 64 bits" in shown
    found = read(tmp_path / "c/compare.json")
    assert set(found["failed"]) == {"scdh-65-0", "itq-65-0"}
    assert {row["method"]: row["runs"] for row in found["rows"]} == {"dsh": 1, "lsh": 1, "scdh": 0, "itq": 0}
    for file in ("compare.md", "compare.html"):
        assert "ITQ gives at most 64 bits" in (tmp_path / "c" / file).read_text("utf-8")
    settings = {name: read(tmp_path / f"c/cells/{name}-65-0/config.json")["config"] for name in ("scdh", "dsh")}
    assert settings["scdh"]["train"]["lr_head"] == 1e30
    assert settings["dsh"]["train"]["lr_head"] == 0.002
    assert not (tmp_path / "c/plots/validation.svg").exists()  # there were no validation rows
    before = state(tmp_path / "c/cells")
    must(f"compare scdh dsh itq lsh {TINY} --bits 65 --seeds 0 {diverges} --out {tmp_path}/c")
    assert state(tmp_path / "c/cells") == before  # what failed would fail again


def test_equal_time_gives_slower_methods_fewer_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def timed(config: Any, *_: Any) -> float:
        measured.append(config.method.name)
        if config.method.name == "dsh":
            raise TrainingError("It diverges.")
        return {"scdh": 0.01, "ninh": 0.02}[config.method.name]

    monkeypatch.setattr(budget, "seconds_a_step", timed)
    small = {"train.batch_size": 128, "net.hidden": [32]}
    grid, source = Grid(("scdh", "ninh", "lsh"), (8,), (0,), "demo-digits", chosen=small), open_source("digits")
    found = compare_methods(grid, source, tmp_path, seconds=0.44)  # 11 steps an epoch
    assert measured == ["scdh", "ninh"]
    assert {entry["method"]: entry["epochs"] for entry in found["cells"]} == {"scdh": 4, "ninh": 2, "lsh": None}
    assert found["budget"] == {"seconds": 0.44, "epochs": [2, 4], "steps": [22, 44]}
    assert epochs_within(grid, source, tmp_path, 0.44, tmp_path) == {("scdh", 8): 4, ("ninh", 8): 2}
    assert epochs_within(grid, source, tmp_path, 1e-9, tmp_path) == {("scdh", 8): 1, ("ninh", 8): 1}
    assert len(measured) == 2  # kept
    other = replace(grid, methods=("dsh",))
    assert epochs_within(other, source, tmp_path, 0.44, tmp_path) == {("dsh", 8): 30}  # as usual
    assert "| NINH | 2 |" in as_markdown(found)


def test_tuning_goes_by_validation_and_asks_no_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"train.epochs": 4, "data.validation_per_class": 5}
    grid = Grid(("scdh", "lsh"), (8, 12, 16), (3,), "demo-digits", chosen=chosen)
    source, values = open_source("digits"), {"train.lr_head": [1e-9, 0.002, 0.01, 1e30]}

    def poison(*_: Any, **__: Any) -> None:
        raise AssertionError("a query was asked")

    with monkeypatch.context() as patch:
        patch.setattr(cells, "score_run", poison)
        patch.setattr(cells, "score_codes", poison)
        tuned, about = tuning.tune(grid, source, tmp_path, values, tmp_path / "features", lambda _: None)
    tried = {entry["values"]["train.lr_head"]: entry["validation_map"] or 0.0 for entry in about["scdh"]["tried"]}
    assert list(tried) == values["train.lr_head"]
    assert len(set(tried.values())) == 4
    best = max(tried, key=tried.__getitem__)
    assert tuned.own == {"scdh": {"train.lr_head": best}}
    with open(tmp_path / f"tuning/cells/scdh-12-3-train.lr_head={best}/log.csv", newline="") as handle:
        assert max(float(row["validation_map"]) for row in csv.DictReader(handle)) == tried[best]
    assert (about["scdh"]["bits"], about["scdh"]["seed"]) == (12, 3)
    for folder in (tmp_path / "tuning/cells").iterdir():  # nor do scores that somebody put there count
        assert not (folder / "scores.json").exists()
        (folder / "scores.json").write_text(json.dumps({"map": 0.0 if str(best) in folder.name else 1.0}))
    assert tuning.tune(grid, source, tmp_path, values, tmp_path / "features", lambda _: None)[1] == about


def test_tuned_values_are_used_and_listed(tmp_path: Path) -> None:
    must(f"compare scdh lsh {TINY} {HELD} --bits 8 --seeds 0 --tune train.lr_head=1e-9,0.01 --out {tmp_path}/c")
    found = read(tmp_path / "c/compare.json")
    assert found["configs"]["scdh-8-0"]["train"]["lr_head"] == found["tuned"]["scdh"]["chosen"]["train.lr_head"]
    for trial in found["tuned"]["scdh"]["tried"]:
        line = f"| scdh | train.lr\\_head = {trial['values']['train.lr_head']} | "
        assert line in (tmp_path / "c/compare.md").read_text("utf-8")
        assert f"{trial['validation_map']:.3f}" in (tmp_path / "c/compare.html").read_text("utf-8")


def test_a_frozen_network_sees_each_image_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a seed here: without pretrained weights each seed has a trunk of its own, which must not be mixed up."""
    write_pictures(tmp_path, [f"photos/{kind}/{n}.png" for kind in "ab" for n in range(10)])
    passed: list[int] = []
    pictures = trunk_features.evaluation_batches

    def spy(source: Any, rows: Any, **given: Any) -> Any:
        passed.extend(rows.tolist())
        return pictures(source, rows, **given)

    monkeypatch.setattr(trunk_features, "evaluation_batches", spy)
    net = "--set net.backbone=small_conv --set net.pretrained=false --set net.freeze=true --set net.image_size=16"
    quick = "--set net.views=1 --set train.batch_size=8 --set train.workers=0 --epochs 1"
    asked = f"scdh dsh itq --data {tmp_path}/photos {net} {quick} --set data.query_per_class=2 --bits 4,6"
    must(f"compare {asked} --seeds 0,1 --out {tmp_path}/c")
    assert sorted(passed) == sorted([*range(20)] * 2)
    for cell in ("scdh-4-0", "scdh-6-1"):
        before = read(tmp_path / "c/cells" / cell / "scores.json")
        for file in (tmp_path / "c/cells" / cell / "codes").iterdir():
            file.unlink()
        after = json.loads(must(f"evaluate {tmp_path}/c/cells/{cell} --json"))  # through the whole network
        assert after["map"] == pytest.approx(before["map"])
        assert after["l_q"] == pytest.approx(before["l_q"], abs=2e-6)


def test_every_trained_run_has_as_many_steps(tmp_path: Path) -> None:
    few = "--preset demo-digits --epochs 3 --set train.batch_size=16 --set data.labelled_per_class=5"
    must(f"compare scdh mt_scdh dsh {few} --bits 8 --seeds 0,1 --out {tmp_path}/c")
    counts = set()
    for file in (tmp_path / "c/cells").glob("*/steps.csv"):
        with open(file, newline="") as handle:
            counts.add(len(list(csv.DictReader(handle))))
    assert counts == {3 * (50 // 16)}
    found = read(tmp_path / "c/compare.json")
    assert found["budget"]["steps"] == [9]
    assert found["data"]["unlabelled"] == 1497 - 50


def entry(method: str, bits: int, seed: int, score: float, *curve: tuple[float, float]) -> dict[str, Any]:
    about = {"method": method, "title": method.upper(), "bits": bits, "seed": seed, "student": False, "epochs": 2}
    about |= {"cell": f"{method}-{bits}-{seed}", "map": score, "seconds": 3.0}
    return {**about, "validation": [list(point) for point in curve]}


def test_target_and_times() -> None:
    slow = entry("slow", 8, 0, 0.5, (1.0, 0.3), (2.0, 0.619), (3.0, 0.6))
    fast = entry("fast", 8, 0, 0.9, (1.0, 0.7), (2.0, 0.9))
    fitted = entry("fitted", 8, 0, 0.4)
    assert shared_target([slow, fast, fitted]) == 0.61
    assert shared_target([fitted, {**fitted, "failed": "so"}]) is None
    assert time_to(slow, 0.61) == 2.0
    assert time_to(fast, 0.61) == 1.0
    assert time_to(slow, 0.7) is None
    assert time_to(fitted, 0.1) is None
    assert time_to(slow, None) is None
    late = entry("slow", 8, 1, 0.7, (1.0, 0.1), (4.0, 0.65))
    failed = {key: fast[key] for key in ("method", "title", "bits", "seed", "cell", "student")} | {"failed": "so"}
    rows = {row["method"]: row for row in rows_of([slow, late, fast, fitted, failed], 0.61)}
    assert list(rows) == ["fast", "slow", "fitted"]
    assert rows["slow"]["seconds_to_target"] == 3.0
    assert rows["slow"]["map"] == pytest.approx(0.6)
    assert rows["slow"]["map_std"] == pytest.approx(0.02**0.5)
    assert (rows["fast"]["runs"], rows["fast"]["failed"], rows["fast"]["map_std"]) == (1, 1, None)
    assert score_words(rows["fast"], "map") == "0.900 (1 failed)"
    assert score_words(rows["slow"], "map") == "0.600 ± 0.141"
    assert (score_words(None, "map"), score_words(rows_of([failed], None)[0], "map")) == ("–", "failed")
    some = rows_of([slow, late], 0.64)[0]
    assert (some["seconds_to_target"], some["reached_target"]) == (None, 1)  # a mean of those that got there would lie


def test_the_page_stands_alone_and_names_stay_names(whole: Path, tmp_path: Path) -> None:
    found = read(whole / "compare.json")
    found["data"]["name"] = "<script>x</script>|*photos*"
    found["methods"] += [f"more{n}" for n in range(20)]
    for n in range(20):  # more methods than colours
        found["rows"] += [{**row, "method": f"more{n}", "title": f"<M{n}> & $x$"} for row in found["rows"][:2]]
    files = write_page(found, tmp_path)
    page, text = (tmp_path / "compare.html").read_text("utf-8"), (tmp_path / "compare.md").read_text("utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;x&lt;/script&gt;|*photos*" in page
    assert "&lt;script>x&lt;/script>\\|\\*photos\\*" in text
    assert "&lt;M3&gt; &amp;" in page
    assert "http" not in page
    assert page.count("<svg") == 4
    assert {path.name for path in files} == {
        *("compare.md", "compare.html", "map.svg", "precision.svg", "validation.svg", "cost.svg")
    }
    svg = (tmp_path / "plots/map.svg").read_text("utf-8")
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "var(--" not in svg
    assert "MT-SCDH (student)" in svg
    for cut in ({"cells": [], "target": None}, {"rows": [], "cells": [], "definition": None, "target": None}):
        write_page(found | cut, tmp_path)  # nothing to draw is no mistake, and an old picture does not stay
        assert not (tmp_path / "plots/validation.svg").exists()
    assert not list((tmp_path / "plots").iterdir())


def test_methods_that_cannot_learn_from_such_labels_are_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    grid, source = Grid(("scdh", "dsh"), (8,), (0,), "demo-digits"), open_source("digits")
    grid.check_labels(source)
    from scdh.methods.dsh import Dsh

    monkeypatch.setattr(Dsh, "about", replace(Dsh.about, labels=("multi",)))
    with pytest.raises(ConfigError, match="dsh learns from multi-label data only"):
        grid.check_labels(source)


def test_a_finished_cell_can_be_resumed_as_a_run(whole: Path) -> None:
    run_folder = whole / "cells" / "scdh-8-0"
    weights, logged = ((run_folder / name).read_bytes() for name in ("model/model.safetensors", "log.csv"))
    must(f"train --resume --out {run_folder}")
    assert (run_folder / "model/model.safetensors").read_bytes() == weights
    assert (run_folder / "log.csv").read_bytes() == logged


def test_a_broken_plug_in_hides_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = tmp_path / "bad-0.1.dist-info"
    offer.mkdir()
    (offer / "METADATA").write_text("Name: bad\nVersion: 0.1\n")
    (offer / "entry_points.txt").write_text("[scdh.methods]\nbroken = nowhere:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    _, said, warned = run("methods")
    assert "mt_scdh" in said
    assert "'broken' of package 'bad' cannot be loaded" in warned
