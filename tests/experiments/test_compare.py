"""Comparisons end to end on digits: numbers, second calls, failures, equal steps, features computed once, kills."""

import csv
import json
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scdh import Codes, Hasher, config
from scdh.data.open import open_source
from scdh.experiments.compare import grid
from scdh.experiments.compare.cell import CellRunner
from scdh.runs import features as trunk_features
from scdh.runs import folder, protocol
from scdh.training import plan as training
from scdh.training.collapse import CollapseWatch
from tests.cli.commands import must, run
from tests.data.data_files import write_pictures
from tests.experiments.comparisons import (
    CELLS,
    EIGHT_BITS,
    SEEDS,
    SMALL,
    TWO_LENGTHS,
    modification_times,
    read_json,
    scores_by_file,
)

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def test_numbers_are_those_of_the_cells(compared: Path) -> None:
    results = read_json(compared / "compare.json")
    assert {path.name for path in (compared / "cells").iterdir()} == set(CELLS)
    for row in results["rows"]:
        name = "scores_student.json" if row["student"] else "scores.json"
        seed_scores = [read_json(compared / "cells" / f"{row['method']}-{row['bits']}-{seed}" / name) for seed in SEEDS]
        for key in ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls"):
            one, two = (scores[key] for scores in seed_scores)
            assert row[key] == pytest.approx((one + two) / 2, rel=1e-12)
            assert row[f"{key}_std"] == pytest.approx(abs(one - two) / 2**0.5, rel=1e-9, abs=1e-15)
        text = f"{row['map']:.3f} ± {row['map_std']:.3f}"
        for file in ("compare.md", "compare.html"):
            assert text in (compared / file).read_text("utf-8")
    titles = list(dict.fromkeys(row["title"] for row in results["rows"]))
    means = [statistics.fmean(row["map"] for row in results["rows"] if row["title"] == title) for title in titles]
    assert means == sorted(means, reverse=True)
    assert {"MT-SCDH", "MT-SCDH (student)"} <= set(titles)
    assert len(titles) == 5
    splits = {(entry["seed"], entry["protocol"]["fingerprint"]) for entry in results["cells"]}
    assert len(splits) == len(SEEDS)  # all methods and lengths of a seed have one split


@pytest.mark.parametrize("cell", ["scdh-16-0", "mt_scdh-8-1", "itq-16-1"])
def test_evaluate_agrees_with_the_table(compared: Path, cell: str) -> None:
    entries = [entry for entry in read_json(compared / "compare.json")["cells"] if entry["cell"] == cell]
    content = json.loads(must(f"evaluate {compared}/cells/{cell} --json"))
    networks = [content, *([content["student"]] if "student" in content else [])]
    assert len(networks) == len(entries) == (2 if cell.startswith("mt") else 1)
    for network, entry in zip(networks, entries, strict=True):
        for key in ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "definition"):
            assert network[key] == entry[key]


def test_a_method_with_codes_of_its_own_length_has_it_in_the_table_once(tmp_path: Path) -> None:
    out = must(f"compare cls_onehot lsh {SMALL} --bits 8,10 --seeds 0 --no-trials --out {tmp_path}/c")
    results = read_json(tmp_path / "c/compare.json")
    titles = {(row["method"], row["bits"]): row["title"] for row in results["rows"]}
    assert titles == {
        **{("cls_onehot", bits): "Cls-onehot (10 bits)" for bits in (8, 10)},
        **{("lsh", bits): "LSH" for bits in (8, 10)},
    }
    assert [cell.get("code_bits") for cell in results["cells"] if cell["method"] == "cls_onehot"] == [10, None]
    assert out.count("Cls-onehot (10 bits)") > 0
    for file in ("compare.md", "compare.html"):
        text = (tmp_path / "c" / file).read_text("utf-8")
        assert "Cls-onehot (10 bits)" in text
        assert "(10 bits) (10 bits)" not in text


def test_settings_split_and_network_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed: what the cells of a seed share, and each cell. Built: each network, and once more when it is read."""
    calls = {"parse_config": 0, "protocol_of": 0, "train_build": 0}

    def count(name: str, function: Any, *places: Any) -> None:
        def counted(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **options)

        for place in places:
            monkeypatch.setattr(place, function.__name__, counted)

    count("parse_config", config.parse_config, config, folder)
    count("protocol_of", protocol.protocol_of, protocol, grid, training)
    count("train_build", Hasher.build, Hasher)
    rate = "--data digits --set train.lr_head=0.01 --epochs 1"
    must(f"compare scdh {rate} --bits 8 --seeds 0 --out {tmp_path}/one")
    assert calls == {"parse_config": 2, "protocol_of": 1, "train_build": 2}
    must(f"compare scdh dsh {rate} --bits 8 --seeds 0,1 --out {tmp_path}/four")
    two_seeds_four_cells = {"parse_config": 2 + 4, "protocol_of": 2, "train_build": 4 + 4}
    assert {name: calls[name] - before for name, before in zip(calls, (2, 1, 2), strict=True)} == two_seeds_four_cells


def test_a_second_call_does_nothing(compared: Path) -> None:
    before, results = modification_times(compared / "cells"), read_json(compared / "compare.json")
    code, out, _ = run(f"compare {TWO_LENGTHS} --out {compared} --json")
    assert code == 0
    assert json.loads(out) == results == read_json(compared / "compare.json")
    assert modification_times(compared / "cells") == before


def test_other_scores_in_a_cell_do_not_get_into_the_table(compared: Path) -> None:
    results, log = read_json(compared / "compare.json"), (compared / "cells/scdh-8-0/log.csv").stat().st_mtime_ns
    must(f"evaluate {compared}/cells/scdh-8-0 --topk 10")
    must(f"evaluate {compared}/cells/lsh-8-0 --radius 1")
    assert json.loads(must(f"compare {TWO_LENGTHS} --out {compared} --topk 100 --json"))["definition"]["topk"] == 100
    again = json.loads(must(f"compare {TWO_LENGTHS} --out {compared} --json"))
    for cell, earlier in zip(again["cells"], results["cells"], strict=True):
        for key in ("map", "precision_at_radius", "empty_balls"):
            assert cell[key] == pytest.approx(earlier[key], abs=1e-12)
        assert cell["definition"] == earlier["definition"]
    assert (compared / "cells/scdh-8-0/log.csv").stat().st_mtime_ns == log  # scored again, not trained again


def test_a_run_that_fails_leaves_the_others(tmp_path: Path) -> None:
    """SCDH diverges; ITQ cannot give more bits than there are features."""
    diverges = "--set scdh:train.lr_head=1e30 --set scdh:train.lr_trunk=1e30"
    output = must(f"compare scdh dsh itq lsh {SMALL} --bits 65 --seeds 0 {diverges} --out {tmp_path}/c")
    assert "scdh-65-0 failed: The loss is not a finite number" in output
    assert "itq-65-0 failed: ITQ gives at most 64 bits" in output
    results = read_json(tmp_path / "c/compare.json")
    assert set(results["failed"]) == {"scdh-65-0", "itq-65-0"}
    assert {row["method"]: row["runs"] for row in results["rows"]} == {"dsh": 1, "lsh": 1, "scdh": 0, "itq": 0}
    for file in ("compare.md", "compare.html"):
        assert "ITQ gives at most 64 bits" in (tmp_path / "c" / file).read_text("utf-8")
    settings = {name: read_json(tmp_path / f"c/cells/{name}-65-0/config.json")["config"] for name in ("scdh", "dsh")}
    assert settings["scdh"]["train"]["lr_head"] == 1e30
    assert settings["dsh"]["train"]["lr_head"] == 0.002
    assert not (tmp_path / "c/plots/validation.svg").exists()  # there were no validation rows
    before = modification_times(tmp_path / "c/cells")
    must(f"compare scdh dsh itq lsh {SMALL} --bits 65 --seeds 0 {diverges} --out {tmp_path}/c")
    assert modification_times(tmp_path / "c/cells") == before  # what failed would fail again


def test_every_trained_run_has_as_many_steps(tmp_path: Path) -> None:
    few = "--preset demo-digits --epochs 3 --set train.batch_size=16 --set data.labelled_per_class=5"
    must(f"compare scdh mt_scdh dsh {few} --bits 8 --seeds 0,1 --out {tmp_path}/c")
    counts = set()
    for file in (tmp_path / "c/cells").glob("*/steps.csv"):
        with open(file, newline="") as handle:
            counts.add(len(list(csv.DictReader(handle))))
    assert counts == {3 * (50 // 16)}
    results = read_json(tmp_path / "c/compare.json")
    assert results["budget"]["steps"] == [9]
    assert results["data"]["unlabelled"] == 1497 - 50


@pytest.mark.parametrize("cell", ["itq-8-0", "lsh-16-1"])
def test_a_fitted_cell_is_a_run_with_a_model_and_no_log(compared: Path, cell: str) -> None:
    folder = compared / "cells" / cell
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {
        *("config.json", "protocol.json", "model", "codes", "scores.json", "per_query.npz")
    }
    model, codes = Hasher.load(folder), Codes.load(folder / "codes/query.codes")
    assert "l_q" not in codes.metadata
    assert model.encode(open_source("digits").features[codes.ids])[:] == Codes(codes.packed, codes.bits, np.arange(300))
    (entry,) = [entry for entry in read_json(compared / "compare.json")["cells"] if entry["cell"] == cell]
    assert entry["seconds"] == model.info["seconds"]
    assert entry["validation"] == []


def test_warnings_name_their_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run shows its own warning, also where another one has shown the same text."""
    monkeypatch.setattr(CollapseWatch, "_centre_problem", lambda *_: "The centres are collapsing")
    code, _, notes = run(f"compare scdh dsh {SMALL} --bits 8 --seeds 0,1 --out {tmp_path}/c")
    assert code == 0
    lines = [line for line in notes.splitlines() if line.startswith("Warning: ")]
    assert [line.split(": ")[1] for line in lines] == ["scdh-8-0", "dsh-8-0", "scdh-8-1", "dsh-8-1"]
    assert all("The centres are collapsing; " in line for line in lines)


def test_warnings_of_the_data_name_the_run(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", features=np.random.default_rng(0).normal(size=(40, 6)), labels=np.zeros(40, int))
    command = f"lsh dsh --data {tmp_path}/one.npz --bits 8 --seeds 0 --epochs 1 --set data.query_per_class=5"
    code, _, notes = run(f"compare {command} --out {tmp_path}/c")
    assert code == 0, notes
    assert "Warning: dsh-8-0: All rows share one label" in notes
    assert "Warning: lsh-8-0" not in notes  # it needs no labels
    write_pictures(tmp_path, [f"photos/{kind}/{n}.png" for kind in "ab" for n in range(10)])
    (tmp_path / "photos/a/3.png").write_bytes(b"no picture")
    net = "--set net.backbone=small_conv --set net.pretrained=false --set net.image_size=16 --set train.batch_size=4"
    skip = "--set data.on_bad_image=skip --set data.query_per_class=2 --set train.workers=0"
    code, _, notes = run(
        f"compare dsh --data {tmp_path}/photos {net} {skip} --epochs 1 --bits 8 --seeds 0 --out {tmp_path}/d"
    )
    assert code == 0, notes
    bad = [line for line in notes.splitlines() if "3.png" in line]
    assert bad
    assert all(line.startswith("Warning: dsh-8-0: ") for line in bad)


def test_a_frozen_network_sees_each_image_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a seed here: without pretrained weights each seed has a trunk of its own, which must not be mixed up."""
    write_pictures(tmp_path, [f"photos/{kind}/{n}.png" for kind in "ab" for n in range(10)])
    loaded_rows: list[int] = []
    evaluation_batches = trunk_features.evaluation_batches

    def spy(source: Any, rows: Any, **options: Any) -> Any:
        loaded_rows.extend(rows.tolist())
        return evaluation_batches(source, rows, **options)

    monkeypatch.setattr(trunk_features, "evaluation_batches", spy)
    net = "--set net.backbone=small_conv --set net.pretrained=false --set net.freeze=true --set net.image_size=16"
    quick = "--set net.views=1 --set train.batch_size=8 --set train.workers=0 --epochs 1"
    command = f"scdh dsh itq --data {tmp_path}/photos {net} {quick} --set data.query_per_class=2 --bits 4,6"
    must(f"compare {command} --seeds 0,1 --out {tmp_path}/c")
    assert sorted(loaded_rows) == sorted([*range(20)] * 2)
    for cell in ("scdh-4-0", "scdh-6-1"):
        before = read_json(tmp_path / "c/cells" / cell / "scores.json")
        for file in (tmp_path / "c/cells" / cell / "codes").iterdir():
            file.unlink()
        after = json.loads(must(f"evaluate {tmp_path}/c/cells/{cell} --json"))  # through the compared network
        assert after["map"] == pytest.approx(before["map"])
        assert after["l_q"] == pytest.approx(before["l_q"], abs=2e-6)


HANGS_IN_THE_SECOND_CELL = """
import sys, time
import scdh.training.loop as loop
from scdh.cli import main

save, saved = loop.save_checkpoint, []
def save_and_hang(*arguments):
    save(*arguments)
    saved.append(1)
    if len(saved) == 3:
        print("hangs", flush=True)
        time.sleep(600)
loop.save_checkpoint = save_and_hang
main(sys.argv[1:])
"""
WAITS_IN_ITS_FIRST_CELL = """
import sys, time
from pathlib import Path
from scdh.cli import main
from scdh.experiments.compare.cell import CellRunner

train = CellRunner._train
def wait(self, cell, folder):
    print(cell.name, flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    train(self, cell, folder)
CellRunner._train = wait
main(sys.argv[2:])
"""


def test_killed_resumed_and_shared_it_comes_out_the_same(compared, tmp_path, monkeypatch):
    out, command = tmp_path / "shared", ["compare", *EIGHT_BITS.split(), "--out", str(tmp_path / "shared")]
    with subprocess.Popen(
        [sys.executable, "-c", HANGS_IN_THE_SECOND_CELL, *command], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert "hangs\n" in iter(killed.stdout.readline, "")  # after the counts of the split
        killed.send_signal(signal.SIGKILL)
    names = [name for name in CELLS if "-8-" in name]
    done = [name for name in names if (out / "cells" / name / "model").exists()]
    assert done == ["scdh-8-0"]
    assert not list(out.glob("cells/*/scores*.json"))  # queries are scored when all is trained
    assert (out / "cells/mt_scdh-8-0/last.safetensors").exists()  # half way

    run_here: list[str] = []
    train = CellRunner._train

    def record(self: Any, cell: Any, folder: Path) -> None:
        run_here.append(cell.name)
        train(self, cell, folder)

    monkeypatch.setattr(CellRunner, "_train", record)
    go = tmp_path / "go"
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_IN_ITS_FIRST_CELL, str(go), *command], stdout=subprocess.PIPE, text=True
    ) as other:
        lines = (line.strip() for line in iter(other.stdout.readline, ""))
        waiting_cell = next(line for line in lines if line in names)  # after the counts of the split
        code, text, notes = run(command)  # does all the rest meanwhile
        assert code == 0
        assert "Not done yet: " in text
        assert f"Another process is still training {waiting_cell}; queries are scored when all runs" in notes
        assert set(read_json(out / "compare.json")["missing"]) == set(names)  # none is scored before all are trained
        assert not list(out.glob("cells/*/scores*.json"))
        assert waiting_cell in (out / "compare.html").read_text("utf-8")
        assert waiting_cell.replace("_", "\\_") in (out / "compare.md").read_text("utf-8").split("**Not done yet.**")[1]
        go.touch()
        rest = other.stdout.read()
        assert other.wait() == 0
    assert waiting_cell == "mt_scdh-8-0"
    assert sorted([*done, waiting_cell, *run_here]) == sorted(names)  # each once
    assert not any(line in names for line in rest.splitlines())
    assert scores_by_file(out) == {name: scores for name, scores in scores_by_file(compared).items() if "-8-" in name}
    assert read_json(out / "compare.json")["missing"] == []  # by the other process, which ended last
