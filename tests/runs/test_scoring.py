"""Scores of a run: codes that are reused, what the scores file holds, runs with a teacher, and fitted runs."""

import json

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.errors import DataError, ModelError
from scdh.evaluation import evaluate
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.scoring import ScoreOptions, score_run
from tests.cli.commands import must, run_json
from tests.methods.harness import digits
from tests.training.settled import train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored") / "run"
    train(digits("mt_scdh", 2, **{"data.validation_per_class": 5}), folder, quiet=True)
    return RunFolder(folder)


@pytest.fixture(scope="module")
def fitted_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted") / "run"
    train(digits("itq"), folder, quiet=True)
    return RunFolder(folder)


@pytest.mark.parametrize("name", ["run", "fitted_run"])
def test_scores_are_those_of_the_models_codes(name, request):
    run = request.getfixturevalue(name)
    result = score_run(run)
    hasher, source = run.load_model(), source_of(run.config())
    protocol = run.protocol(source)
    query, database = (hasher.encode(source.features[rows]) for rows in (protocol.query, protocol.database))
    expected = evaluate(query, source.labels[protocol.query], database, source.labels[protocol.database])
    assert result.scores.map == pytest.approx(expected.map, abs=1e-12)
    content = json.loads(run.scores().read_text("utf-8"))
    assert content["map"] == result.scores.map
    assert content["model"] == hasher.fingerprint() == result.model
    assert content["left_out"] == 0
    assert content["protocol"]["fingerprint"] == protocol.fingerprint
    assert content["config"] == run.config().model_dump(mode="json")
    assert ("l_q" in content) == hasher.method.learns_by_gradient
    with np.load(run.per_query()) as per_query:
        np.testing.assert_array_equal(per_query["rows"], protocol.query)


def test_codes_are_reused_until_the_model_changes(run):
    score_run(run)
    first = run.codes("database").stat().st_mtime_ns
    again = score_run(run)
    assert run.codes("database").stat().st_mtime_ns == first
    codes = Codes.load(run.codes("database"))
    Codes(codes.packed, codes.bits, codes.ids, {**codes.metadata, "model": "of another model"}).save(
        run.codes("database")
    )
    assert score_run(run).scores.map == again.scores.map
    assert Codes.load(run.codes("database")).metadata["model"] == again.model


def test_a_run_with_a_teacher_has_scores_of_both_networks(run):
    teacher, student = score_run(run, network="teacher"), score_run(run, network="student")
    assert teacher.model != student.model
    assert student.file.name == "scores_student.json"
    assert [result.to_dict()["network"] for result in (teacher, student)] == ["teacher", "student"]
    assert score_run(run).to_dict()["network"] == "teacher"


@pytest.mark.slow
def test_validation_rows_are_scored_among_themselves(run):
    result = score_run(run, "validation")
    assert result.file.name == "scores_validation.json"
    assert result.scores.definition["queries"] == len(run.protocol(source_of(run.config())).validation) == 50
    assert result.scores.map == pytest.approx(run.load_model().info["validation_map"], abs=1e-6)


def test_options_change_the_definition(fitted_run):
    result = score_run(fitted_run, options=ScoreOptions(topk=10, radius=1))
    assert result.scores.definition["topk"] == 10
    assert result.scores.definition["radius"] == 1
    assert ScoreOptions().topk_for("nuswide21") == 5000
    assert ScoreOptions().topk_for("digits") is None
    assert ScoreOptions(topk=None).topk_for("nuswide21") is None


def test_what_cannot_be_scored_is_one_sentence(fitted_run, tmp_path):
    with pytest.raises(DataError, match=r"no validation rows to score; train one with data\.validation_per_class"):
        score_run(fitted_run, "validation")
    refitted = RunFolder(tmp_path / "refitted")
    given = {"data.validation_per_class": 5, "data.train_on_validation": True}
    train(digits("itq", 1, **given), refitted.path, quiet=True)
    with pytest.raises(DataError, match="no validation rows to score: they train too"):
        score_run(refitted, "validation")
    with pytest.raises(DataError, match="There is no run folder"):
        score_run(RunFolder(tmp_path / "none"))
    with pytest.raises(ModelError, match="holds one network only"):
        score_run(fitted_run, network="student")


def test_a_model_folder_knows_its_run(run, tmp_path):
    for folder in (run.path, run.model, run.student):
        assert RunFolder.of_model(folder).path == run.path
    assert RunFolder.of_model(tmp_path).path == tmp_path
    unfinished = RunFolder(tmp_path)
    run.protocol(source_of(run.config())).save(unfinished.protocol_file)
    with pytest.raises(ModelError, match=r"holds no model yet; finish it with `scdh train --resume --out"):
        unfinished.load_model()


def test_items_without_a_label_are_counted_and_told(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    labels[40:] = -1
    np.savez(tmp_path / "half.npz", X=rng.normal(size=(60, 8)), y=labels)
    must(f"train --data {tmp_path}/half.npz --method itq --bits 8 --out {tmp_path}/run")
    assert "20 of the 52 items have no label, so they count as wrong" in must(f"evaluate {tmp_path}/run")
    assert run_json(f"evaluate {tmp_path}/run --json")["unlabelled_items"] == 20
