"""The page of a run, for every kind of run: its structure, its escaping, and its numbers."""

import json
import re

import numpy as np
import pytest

from scdh.config import load_config
from scdh.errors import DataError
from scdh.experiments.report.contents import read_contents
from scdh.experiments.report.page import write_report
from scdh.runs.choices import Choice, Choices
from scdh.runs.folder import RunFolder
from tests.cli.commands import must, run, run_json
from tests.data.data_files import encoded, write_parquet, write_pictures
from tests.experiments.comparisons import Checked
from tests.methods.harness import digits
from tests.methods.toys import use_as_toy
from tests.runs.test_scoring import WeightedDsh
from tests.training.settled import as_settings, train

HOSTILE = "<b>bad</b> & 'label'"


def page_of(folder):
    path, contents = write_report(folder)
    return Checked(path.read_text("utf-8")), contents


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    train(digits("mt_scdh", 2, **{"data.validation_per_class": 5}), folder / "taught", quiet=True)
    train(digits("itq"), folder / "itq", quiet=True)
    whole = {"data.train_per_class": None, "data.split": "all"}
    train(digits("scdh", 1, **whole), folder / "all", quiet=True)
    train(digits("scdh", 1, **whole, **{"data.validation_per_class": 4}), folder / "validated", quiet=True)
    return folder


def test_a_run_with_a_teacher_has_curves_scores_and_confusions(runs):
    page, contents = page_of(runs / "taught")
    assert {"scores", "split", "labels", "pairs", "bits", "settings"} <= page.ids
    assert "codes of the teacher" in page.text
    assert "codes of the student" in page.text
    assert "64 floats, cosine" in page.text
    assert "Validation MAP by epoch" in page.text
    assert "ranked against each other" in page.text
    assert "Drawn by seed 0" in page.text
    assert f"{contents.ranked.scores.scores.map:.3f}" in page.text
    assert page.pictures == []  # embeddings are shown by name
    assert "Queries with the lowest average precision" in page.text
    rules = ("the lowest", "an average precision next", "the highest")
    order = [page.text.index(f"Queries with {rule}") for rule in rules]
    assert order == sorted(order)
    scores = json.loads(RunFolder(runs / "taught").scores().read_text("utf-8"))
    assert scores["map"] == contents.ranked.scores.scores.map


def row_of(ranked, query):
    return ranked.queries.ids[query : query + 1]


def test_hits_are_those_of_the_ranking(runs):
    contents = read_contents(RunFolder(runs / "taught"))
    ranked, database = contents.ranked, contents.database
    bits, items = ranked.queries.unpack().astype(int), database.unpack().astype(int)
    for query in (0, 7, len(bits) - 1):
        distances = np.abs(items - bits[query]).sum(axis=1)
        order = sorted(range(len(items)), key=lambda item: (distances[item], item))[:10]
        assert ranked.positions[query].tolist() == order
        hasher = RunFolder(runs / "taught").load_model()
        sums = (
            np.abs(items - bits[query]) * np.abs(hasher.hash_outputs(contents.source.features[row_of(ranked, query)]))
        ).sum(1)
        shown, away = ranked.hits_of(query)
        assert shown.tolist() == np.lexsort((np.arange(len(items)), sums, distances))[:10].tolist()
        assert away.tolist() == distances[shown].tolist()
        last = distances[order[-1]]
        more = (distances == last).sum() - sum(distances[item] == last for item in order)
        note = ranked.tie_note(query)
        assert (f"{more:,} more at the same distance" in note) if more else note == ""
        assert "shown by the query's real outputs" in note or not more or last == 0  # where outputs order nothing


def test_a_fitted_run_has_no_curve_of_training(runs):
    page, _ = page_of(runs / "itq")
    assert "This method is fitted at once" in page.text
    assert "Share of ones of each bit" in page.text


def test_a_run_without_queries_shows_its_validation_rows(runs):
    page, contents = page_of(runs / "validated")
    assert "its validation rows are ranked among themselves" in page.text
    ranked = contents.ranked
    assert ranked.leaves_one_out
    assert not (ranked.positions == np.arange(len(ranked.positions))[:, None]).any()
    assert ranked.positions.shape[1] == 10


def test_a_run_without_anything_to_score_shows_its_codes(runs):
    page, contents = page_of(runs / "all")
    assert contents.ranked is None
    assert "there is nothing to score; its codes are described below" in page.text
    assert "bits" in page.ids
    assert "scores" not in page.ids


def test_data_without_labels_are_the_reason_why_nothing_is_scored(tmp_path):
    np.savez(tmp_path / "items.npz", X=np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32))
    must(f"train --data {tmp_path}/items.npz --method itq --bits 8 --out {tmp_path}/run")
    page, _ = page_of(tmp_path / "run")
    assert "items.npz has no labels, which tell what is right, so there is nothing to score" in page.text
    assert "data.split=" not in page.text
    assert "kB); open it in a browser." in must(f"report {tmp_path}/run --device cpu")


def test_validation_rows_that_search_the_training_rows_are_said_to(tmp_path):
    settings = {"data.validation_per_class": 5, "train.validation_database": "train"}
    train(digits("scdh", 1, **settings), tmp_path / "run", quiet=True)
    page, _ = page_of(tmp_path / "run")
    assert "MAP of the validation rows, ranked against the training rows." in page.text


def test_the_next_commands_have_the_options_of_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [{"bytes": encoded(i), "path": None} for i in range(24)]
    write_parquet(tmp_path / "shop.parquet", {"image": cells, "kinds": [f"k{i % 2}, all" for i in range(24)]})
    options = ["--label-column", "kinds", "--label-separator", ","]
    settings = ["net.backbone=small_conv", "net.image_size=16", "train.workers=0", "data.query_per_class=3"]
    extra = [part for setting in settings for part in ("--set", setting)]
    must(["train", "--data", "shop.parquet", *options, "--bits", "8", "--epochs", "1", *extra, "--out", "run"])
    page, _ = page_of(tmp_path / "run")
    assert "encode" in page.text
    assert "--label-column kinds --label-separator ," in page.text
    assert "hits.html --data shop.parquet" in page.text


@pytest.mark.slow
def test_chosen_settings_are_shown_with_their_reasons(runs):
    run = RunFolder(runs / "itq")
    reason = "lowest loss in <a> range test & more"
    Choices(run.config(), made=[Choice("train.lr_head", 0.01, reason)]).save(run.choices_file)
    page, _ = page_of(runs / "itq")
    assert "choices" in page.ids
    assert reason in page.text
    run.choices_file.unlink()
    page, _ = page_of(runs / "itq")
    assert "choices" not in page.ids


@pytest.mark.slow
def test_the_command_writes_where_it_is_told(runs, tmp_path):
    out = tmp_path / "a folder ü" / "page.html"
    content = run_json(["report", f"{runs}/itq", "--out", str(out), "--no-floats", "--json"])
    assert content["report"] == str(out)
    assert content["floats_map"] is None
    assert "floats" not in Checked(out.read_text("utf-8")).text
    assert "report.html" in must(f"report {runs}/itq")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Photos whose names and labels hold everything that HTML could read as markup; one of them is broken."""
    folder = tmp_path_factory.mktemp("photos & <more>")
    kinds = (HOSTILE.replace("/", "-"), "pear")
    write_pictures(folder / "data", [f"{kind}/{i} <i>.png" for kind in kinds for i in range(9)])
    (folder / "data" / "pear" / "8 <i>.png").write_bytes(b"broken")
    settings = ["net.backbone=small_conv", "net.image_size=16", "train.workers=0", "data.query_per_class=3"]
    options = [part for setting in settings for part in ("--set", setting)]
    command = ["train", "--data", f"{folder}/data", "--bits", "8", "--epochs", "1", "--on-bad-image", "skip", *options]
    must([*command, "--set", "net.freeze=true", "--out", f"{folder}/run"])
    return folder


def test_photos_are_inside_the_page_and_names_are_escaped(photos):
    page, contents = page_of(photos / "run")
    assert len(page.pictures) > 20
    assert all(re.match(r"data:image/(png|jpeg);base64,[\w+/=]+$", picture) for picture in page.pictures)
    assert HOSTILE.replace("/", "-") in page.text
    assert "<i>.png" in page.text
    raw = (photos / "run" / "report.html").read_text("utf-8")
    assert "<i>.png" not in raw
    assert "<b>bad" not in raw
    assert contents.ranked.scores.floats is not None


def test_several_labels_thousands_of_labels_and_unlabelled_rows(tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(600, 12)).astype(np.float32)
    hot = (rng.random((600, 40)) < 0.06).astype(np.uint8)
    np.savez(tmp_path / "many.npz", X=vectors, y=hot, label_names=np.array([f"tag {n} <x>" for n in range(40)]))
    np.savez(tmp_path / "pairs.npz", X=vectors, y=np.where(np.arange(600) < 500, np.arange(600) // 2, -1))
    options = "--bits 8 --method itq --set data.query_per_class=1"
    for name in ("many", "pairs"):
        must(f"train --data {tmp_path}/{name}.npz {options} --out {tmp_path}/{name}")
        page, contents = page_of(tmp_path / name)
        assert "more pairs" in page.text
        assert "labels with a higher MAP" in page.text
        assert "by label of the query" not in page.text  # no heat map of so many
    assert contents.source.labels.ndim == 1
    assert "unlabelled" in page.text


def test_a_method_with_its_own_distance_is_ranked_by_it(tmp_path, monkeypatch):
    use_as_toy(monkeypatch, WeightedDsh)
    settings = {"method.name": "toy", "train.epochs": 1, "method.bits": 12, "train.epoch_steps": 5}
    train(load_config("demo-digits", overrides=settings), tmp_path / "run", quiet=True)
    page, contents = page_of(tmp_path / "run")
    assert not contents.ranked.is_by_bits
    assert "distance 0" in page.text
    assert "not shown" not in page.text
    assert "precision within radius" not in page.text


def test_what_is_no_finished_run_is_one_sentence(tmp_path, runs):
    code, _, message = run(f"report {tmp_path}")
    assert (code, message.count("\n")) == (2, 1)
    assert "is not a run folder" in message
    assert "There is no run folder" in run(f"report {tmp_path}/nowhere")[2]
    failed = RunFolder(runs / "itq").failure
    failed.write_text(json.dumps({"sentence": "The loss became NaN."}), "utf-8")
    with pytest.raises(DataError, match="nothing to report: The loss became NaN"):
        write_report(runs / "itq")
    failed.unlink()


def test_a_page_to_share_has_no_absolute_paths_and_whole_names(tmp_path):
    name = "a rather long name of a label indeed"
    write_pictures(tmp_path / "photos", [f"{label}/{i}.png" for label in (name, "short") for i in range(9)])
    settings = as_settings(
        "data.query_per_class=3 net.backbone=small_conv net.image_size=16 train.workers=0 train.epochs=1 method.bits=8"
    ) | {"data.source": str(tmp_path / "photos")}
    train(load_config(overrides=settings), tmp_path / "run", quiet=True)
    path, _ = write_report(tmp_path / "run")
    text = path.read_text("utf-8")
    assert str(tmp_path) not in text
    assert f"{name}/" in text
    page = Checked(text)
    assert "These scores are uncertain: they rest on 6 queries (below 50)." in page.text
    assert "95 % interval over queries" in page.text
    scores = run_json(f"evaluate {tmp_path / 'run'} --json")
    low, high = scores["map_interval"]
    assert low <= scores["map"] <= high
    assert "interval over queries" in must(f"evaluate {tmp_path / 'run'}")
