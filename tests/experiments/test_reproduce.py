"""The paper reproduced: its numbers, scales, rules of claims, and a whole run at a scale of seconds."""

import csv
import importlib.util
import re
import shutil
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scdh.errors import ConfigError, DataError
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.results import CellResult
from scdh.experiments.reproduce import run as runs
from scdh.experiments.reproduce.claims import decide, read_claims
from scdh.experiments.reproduce.items import ITEMS
from scdh.experiments.reproduce.run import Reproduced
from scdh.experiments.reproduce.scale import all_studies, load_scale
from scdh.experiments.reproduce.tables import paper_table
from scdh.experiments.reproduce.toy import toy_losses
from scdh.methods.registry import method_names
from tests.cli.commands import fails, must, run, run_json
from tests.experiments.comparisons import modification_times, read_json

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

DOCS = Path(__file__).parents[2] / "docs"
TABLES = ("map_single", "map_multi", "many_classes", "training_time", "semi_single", "semi_multi", "warm_up")
TABLES = (*TABLES, "variants_single", "variants_multi", "variants_many")
# The smallest scale that has every kind of study.
TINY = """
name = "tiny"
about = "a test"
seeds = [0, 1]
run_seconds = 1.0
longest = 8
warm_up = [0, 4]
warm_up_epochs = 1
[sensitivity]
alpha = [0.0, 0.5]
lam = [0.0, 0.005, 0.5]
mu = [0.0, 0.1]
[roles.single]
title = "digits"
stands_for = "CIFAR-10"
is_same = false
preset = "demo-digits"
methods = ["scdh", "scdh_s", "scdh_c", "dsh"]
bits = [8, 12]
semi_methods = ["scdh", "mt_scdh"]
[roles.single.settings]
"train.epochs" = 2
"train.batch_size" = 256
"data.validation_per_class" = 5
"data.train_per_class" = 30
[roles.single.semi_settings]
"data.labelled_per_class" = 5
"train.epoch_steps" = 2
[roles.many]
title = "made-up clusters"
stands_for = "ImageNet"
is_same = false
needs = "clusters"
methods = ["scdh", "scdh_s"]
bits = [8]
[roles.many.settings]
"data.query_per_class" = 2
"data.validation_per_class" = 2
"train.epochs" = 1
"train.batch_size" = 1024
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished reproduction, with its scale in ``tiny.toml``."""
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "tiny.toml").write_text(TINY, "utf-8")
    must(f"reproduce all --scale {folder}/tiny.toml --out {folder}/out")
    return folder


def test_every_table_and_claim_is_answered_with_its_scale(tiny: Path) -> None:
    page = (tiny / "out/report.html").read_text("utf-8")
    assert "scale <b>tiny</b>: a test" in page
    assert not re.findall(r'(?:src|href)="(?!#)(?!data:)', page.replace('href="#', ""))  # one file
    text = (tiny / "out/results.md").read_text("utf-8")
    assert text.count("Ours: scale tiny") >= 9
    for title in (
        "MAP by bits, on data in place of CIFAR-10",
        "Warm-up of the centres",
        "Training time",
        "Final l\\_q against α",
    ):
        assert f"## {title}" in text
    # Numbers on other data are never subtracted from the paper's.
    assert "so no difference is shown" in text
    assert "mean difference" not in text
    for claim in read_claims()[1]:
        assert claim["claim"] in page
    outcomes = re.findall(r"\*\*(holds|does not hold|not tested at this scale)\*\*", text)
    assert len(outcomes) == len(read_claims()[1])
    assert outcomes.count("not tested at this scale") == 4  # several labels, triplet losses, two norms, 1,000 classes


def test_a_page_for_the_documentation_is_made_from_the_files(tiny: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.copy_results(tiny / "out", tmp_path / "page.md")
    text = script.render(tmp_path / "page.md")
    assert text == (tiny / "out/results.md").read_text("utf-8").replace("](data/", "](page/")
    for link in re.findall(r"\]\((page/[^)]+)\)", text):
        assert (tmp_path / link).is_file()


def test_figures_come_with_their_data(tiny: Path) -> None:
    names = {file.stem for file in (tiny / "out/data").glob("*.svg")}
    assert names == {
        *("toy_path", "toy_map", "gradient_field", "precision_single", "intra_class", "tsne"),
        *("sensitivity", "l_q_by_alpha", "map_by_epoch"),
    }
    for name in names:
        ElementTree.parse(tiny / f"out/data/{name}.svg")
        with open(tiny / f"out/data/{name}.csv", newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
        assert len(lines) > 1
        assert len({len(line) for line in lines}) == 1


def test_numbers_are_those_of_the_runs(tiny: Path) -> None:
    (folder,) = (tiny / "out/studies").glob("single-*")
    scores = [read_json(folder / f"cells/scdh-12-{seed}/scores.json")["map"] for seed in (0, 1)]
    with open(tiny / "out/data/map_single.csv", newline="", encoding="utf-8") as file:
        (line,) = [line for line in csv.DictReader(file) if line["method"] == "SCDH"]
    assert line["ours (scale tiny) 12 bits"].startswith(f"{sum(scores) / 2:.3f} ± ")
    assert line["paper (CIFAR-10) 12 bits"] == "0.801"
    assert line["paper's network"] == "AlexNet"


def test_a_second_call_computes_nothing_and_another_seed_only_what_is_missing(tiny, tmp_path, monkeypatch):
    shutil.copytree(tiny / "out", tmp_path / "out")
    command = f"reproduce map-single --scale {tiny}/tiny.toml --out {tmp_path}/out"
    before = modification_times(tmp_path / "out/studies")
    assert run_json(f"{command} --plan --json")["studies"][0]["runs"] == 0
    measured = read_json(tmp_path / "out/times.json")["seconds per run"]["digits: single"]
    (plan,) = run_json(f"{command} --seeds 0,1,2 --plan --json")["studies"]
    assert plan["runs"] == 8
    assert plan["seconds"] == pytest.approx(8 * measured, abs=0.1)
    must(command)
    assert modification_times(tmp_path / "out/studies") == before
    must(f"{command} --seeds 0,1,2 --finished")
    assert "2 seeds" in (tmp_path / "out/results.md").read_text("utf-8")
    assert modification_times(tmp_path / "out/studies") == before
    trained: list[str] = []
    train = CellRunner._train

    def counted(self: CellRunner, cell: Any, folder: Any) -> None:
        trained.append(cell.name)
        train(self, cell, folder)

    monkeypatch.setattr(CellRunner, "_train", counted)
    must(f"{command} --seeds 0,1,2")
    assert sorted(trained) == sorted(
        f"{name}-{bits}-2" for name in ("scdh", "scdh_s", "scdh_c", "dsh") for bits in (8, 12)
    )


def test_a_stopped_reproduction_goes_on(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"reproduce map-single --scale {tiny}/tiny.toml --out {tmp_path}/out"
    train, done = CellRunner._train, list[str]()

    def stopped(self: CellRunner, cell: Any, folder: Any) -> None:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(cell.name)
        train(self, cell, folder)

    monkeypatch.setattr(CellRunner, "_train", stopped)
    code, _, err = run(command)
    assert code != 0
    assert "the same command continues" in err
    monkeypatch.undo()
    assert run_json(f"{command} --plan --json")["studies"][0]["runs"] == 16
    models = {name: modification_times(next((tmp_path / "out/studies").glob(f"*/cells/{name}/model"))) for name in done}
    must(command)
    for name in done:
        assert modification_times(next((tmp_path / "out/studies").glob(f"*/cells/{name}/model"))) == models[name]
    ours, whole = ((folder / "data/map_single.csv").read_text() for folder in (tmp_path / "out", tiny / "out"))
    assert ours == whole


def test_a_comment_leaves_results_and_other_code_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs.resources, "files", lambda _: tmp_path)
    texts = ['"""Doc."""\nx = 1\n', '"""Other."""\nx = 1  # why\n', "x = 2\n"]
    prints = []
    for text in texts:
        (tmp_path / "loss.py").write_text(text)
        prints.append(runs.code_fingerprint.__wrapped__(("loss.py",)))
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_the_paper_are_whole(name: str) -> None:
    table = paper_table(name)
    assert "IEEE Transactions on Image Processing, 2019, table " in table.paper
    for (method, _), values in table.rows.items():
        assert name == "warm_up" or method in method_names()
        assert set(values) <= set(table.columns)
        is_score = name not in ("training_time", "warm_up")
        assert all(0.2 < value < 1 for value in values.values()) or not is_score


def test_numbers_of_the_paper() -> None:
    assert paper_table("map_single").rows["scdh", "ResNet-50"]["48"] == 0.918
    assert paper_table("map_multi").row("dpsh", "AlexNet") == (
        "VGG-F",
        {"12": 0.794, "24": 0.822, "32": 0.833, "48": 0.851},
    )
    assert paper_table("map_single").row("lsh", "AlexNet") == ("–", {})
    assert paper_table("training_time").rows["scdh", "VGG-16"] == {"single": 0.9, "multi": 0.7}
    assert paper_table("variants_many").rows["scdh_c", "AlexNet"] == {"48": 0.334, "precision 48": 0.298}
    assert paper_table("warm_up").rows["4", "AlexNet"] == {"map": 0.421, "precision": 0.344, "norm": 5.69}


def test_the_full_scale_is_the_papers_setting() -> None:
    scale = load_scale("full")
    assert scale.seeds == (0, 1, 2, 3, 4)
    studies = {study.name: study for study in all_studies(scale, dict.fromkeys(scale.roles, "/data"))}
    single, multi, many = (studies[name].grid for name in ("single", "multi", "many"))
    assert single.bits == multi.bits == (12, 24, 32, 48)
    expected = {"single": (160, [100, 140], 0.005, 0.2, 0.05), "multi": (60, [40], 0.001, 0.1, 1.0)}
    expected |= {"many": (20, [12, 17], 0.001, 0.1, 4.0)}
    for name, grid in (("single", single), ("multi", multi), ("many", many)):
        config = grid.config("scdh", 48, 0, grid.settings or {}).with_method_defaults()
        own = config.method.own
        found = (config.train.epochs, list(config.train.lr_steps), own["lam"], own["mu"], own["alpha"])
        assert found == expected[name]
        assert (config.net.backbone, config.train.optimiser, config.train.lr_trunk, config.train.lr_head) == (
            *("alexnet", "sgd", 0.001, 0.01),
        )
        assert own.get("form", "softmax") == "softmax"
    warm_up = studies["warm-up=8"].grid
    own = warm_up.config("scdh", 48, 0, warm_up.settings or {}).with_method_defaults().method.own
    assert (own["warm_up_epochs"], own["warm_up_norm"]) == (5, 8.0)


@pytest.mark.parametrize("name", ["quick", "cpu", "full"])
def test_scales_have_runs_for_every_item(name: str) -> None:
    scale = load_scale(name)
    groups = {study.group for study in all_studies(scale, dict.fromkeys(scale.roles, "/data"))}
    for item in ITEMS:
        assert not item.needs or groups & set(item.needs)
    assert len(scale.seeds) >= 3


def test_the_rule_for_differences() -> None:
    assert decide({0: 0.02, 1: 0.03, 2: 0.025})[0] == "holds"
    assert decide({0: 0.01, 1: -0.005, 2: 0.02})[0] == "does not hold"  # the mean is within its error
    assert decide({0: -0.02, 1: -0.02})[0] == "does not hold"
    assert decide({0: 0.02})[0] == "not tested at this scale"


def test_pauses_of_the_machine_do_not_count_as_training() -> None:
    ends = [(1.0, 0.1), (2.0, 0.2), (490.0, 0.3), (491.0, 0.4)]
    cell = CellResult(cell="scdh-8-0", method="scdh", title="SCDH", bits=8, seed=0, student=False, validation=ends)
    assert runs.usual_seconds(cell) == 4.0


def test_the_toy_bounds_are_in_order() -> None:
    for sigma, d in ((1.0, 1.0), (0.3, 4.0), (0.05, 8.0)):
        losses = toy_losses(sigma, d)
        assert losses["triplet"] <= losses["relaxed"] <= losses["bound"]


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    for arguments, expected in (
        ("toi", "did you mean 'toy'"),
        ("toy --scale quik", "did you mean 'quick'"),
        ("toy --data multi", "ROLE=PATH"),
        ("toy --seeds x", "--seeds"),
    ):
        assert expected in fails(f"reproduce {arguments} --out {tmp_path}/x")
    (tmp_path / "bad.toml").write_text("about = 'x'")
    with pytest.raises(ConfigError, match="name"):
        load_scale(str(tmp_path / "bad.toml"))
    quick = resources.files("scdh.experiments.reproduce").joinpath("scales/quick.toml").read_text("utf-8")
    (tmp_path / "bad.toml").write_text(quick.replace('name = "quick"', 'name = "../../x"'))
    with pytest.raises(ConfigError, match="name"):  # it would be a folder outside of runs/
        load_scale(str(tmp_path / "bad.toml"))


def test_items_are_listed() -> None:
    listed = must("reproduce --list")
    for item in ITEMS:
        assert item.name in listed


def test_figures_that_were_edited_are_rejected(tmp_path):
    out = Reproduced(load_scale("quick"), tmp_path)
    assert out.kept("toy", [], lambda: {"path": [1]}) == {"path": [1]}
    (file,) = (tmp_path / "computed").iterdir()
    for text in ("{}", '{"path": "<script>"}', "[]", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(DataError, match="delete it, and they are computed again"):
            out.kept("toy", [], dict)
