"""Scores of a run: reused codes, both networks, a ranking of the method's own, the float vectors behind the codes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from scdh.codes import RANKING, Codes
from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.errors import CodesError, ConfigError, DataError, ModelError
from scdh.evaluation import evaluate, evaluate_distances
from scdh.index import HammingIndex
from scdh.index.weights import weight_tables
from scdh.methods.base import About
from scdh.methods.dsh import Dsh
from scdh.methods.registry import method_class
from scdh.model.hasher import Hasher
from scdh.runs import floats as module
from scdh.runs.floats import advice_against_floats, score_floats
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.scoring import ScoreOptions, score_run
from scdh.runs.summary import caution
from tests.cli.commands import fails, must, run_json
from tests.methods.harness import digits
from tests.methods.toys import use_as_toy
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


class WeightedDsh(Dsh):
    """DSH whose items are ranked by Σ |u_k| over the bits that differ from the query's real outputs u."""

    about = About("Weighted DSH", "pairwise", 2026, "a test", cost="none", fidelity="variant", differs="a test")
    ranking = "weighted distance"

    def distance_tables(self, net, u):
        halves = weight_tables(Codes.from_signs(u), np.abs(u).astype(np.float64))
        return (halves[:, ::2, None, :] + halves[:, 1::2, :, None]).reshape(len(u), -1, 256)


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use_as_toy(patch, WeightedDsh)
        settings = {"method.name": "toy", "train.epochs": 2, "method.bits": 12, "data.validation_per_class": 5}
        settings["method.corner_weight"] = 0.01  # with 0.02 two epochs leave one code
        folder = tmp_path_factory.mktemp("own") / "run"
        train(load_config("demo-digits", overrides=settings), folder, quiet=True)
        yield RunFolder(folder)


def test_it_is_scored_by_its_own_distance(own_run):
    result = score_run(own_run)
    assert "weighted distance" in result.scores.definition["words"]
    hasher, source = own_run.load_model(), source_of(own_run.config())
    protocol = own_run.protocol(source)
    u, database = (
        hasher.hash_outputs(source.features[protocol.query]),
        hasher.encode(source.features[protocol.database]),
    )
    labels = source.labels[protocol.query], source.labels[protocol.database]
    expected = evaluate_distances(hasher.method.distances(hasher.network, u, database), *labels).map
    assert result.scores.map == pytest.approx(expected, abs=1e-12)
    plain = evaluate(
        Codes.from_signs(u), labels[0], Codes(database.packed, database.bits), labels[1]
    ).map  # the same bits by Hamming distance
    assert result.scores.map != pytest.approx(plain, abs=1e-6)
    content = json.loads(own_run.scores().read_text())
    assert content["map"] == result.scores.map
    assert "precision_at_radius" not in content


def test_validation_goes_by_its_distance(own_run):
    best = own_run.model_info()["validation_map"]
    assert score_run(own_run, "validation").scores.map == pytest.approx(best, abs=1e-6)


def test_its_codes_are_searched_by_its_distance_only(own_run):
    hasher = own_run.load_model()
    codes, u = hasher.encode(np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32), outputs=True)
    assert codes.metadata[RANKING] == "weighted distance"
    index = HammingIndex(Codes.load(own_run.codes("database")))
    with pytest.raises(CodesError, match=r"ranked by weighted distance"):
        index.search(codes)
    plain = HammingIndex(Codes(index.codes.packed, 12, index.ids))
    hits = index.search(codes, 20, byte_tables=hasher.distance_tables(u))
    expected = plain.search(Codes(codes.packed, 12), 20, weights=abs(u))
    assert np.array_equal(hits.ids, expected.ids)
    assert np.array_equal(hits.distances, expected.distances)
    with pytest.raises(ConfigError, match="cannot recover outputs from codes"):
        hasher.distance_tables(codes)


def test_the_model_keeps_it(own_run):
    hasher = Hasher.load(own_run.path)
    assert hasher.method.ranking == "weighted distance"


@pytest.fixture(scope="module")
def lsh_run(tmp_path_factory):
    """A fitted run of few bits."""
    folder = tmp_path_factory.mktemp("floats") / "lsh"
    train(digits("lsh", **{"method.bits": 8}), folder, quiet=True)
    return RunFolder(folder)


def table_of_distances(queries, database):
    """1 − cosine, one pair at a time."""
    return np.array([[1 - q @ d / (np.linalg.norm(q) * np.linalg.norm(d)) for d in database] for q in queries])


def test_scores_are_those_of_a_whole_table_of_distances():
    rng = np.random.default_rng(0)
    labels = (rng.random((50, 4)) < 0.3).astype(np.uint8)
    source = ArraySource(rng.normal(size=(50, 6)).astype(np.float32), labels, name="many labels")
    queries, database = np.arange(10), np.arange(12, 50)

    def features(rows):
        readable = rows[rows != 20]  # an image that cannot be read
        return readable, source.features[readable]

    options = ScoreOptions(topk=7, denominator="relevant")
    scored = score_floats(source, queries, database, features, options)
    kept = database[database != 20]
    distances = table_of_distances(source.features[queries], source.features[kept])
    expected = evaluate_distances(distances, labels[queries], labels[kept], topk=7, denominator="relevant")
    assert scored.scores.map == pytest.approx(expected.map)
    assert scored.scores.definition["database"] == len(kept)
    assert (scored.name, scored.bytes) == ("6 floats", 24)
    assert "cosine distance" in scored.scores.definition["words"]


def test_codes_that_their_own_outputs_rank_above_the_floats_are_told_so():
    """32 bits for 80 labels: MAP 0.246, by outputs 0.281, floats 0.252. More epochs would be wrong advice."""
    codes, floats, outputs = (SimpleNamespace(map=value) for value in (0.246, 0.252, 0.281))
    vectors, labels = SimpleNamespace(scores=floats, name="1,280 floats"), np.arange(800) % 8

    def advice(by_outputs):
        return advice_against_floats(codes, vectors, method_class("scdh"), labels, by_outputs)

    assert "--rank outputs of `scdh search` ranks them better (MAP 0.281)" in advice(outputs)
    assert "more epochs" in advice(codes)
    assert advice(None) == advice(codes)


def test_floats_that_are_better_only_at_the_top_of_the_list_are_named():
    def ranking(score, first, first_ten):
        return SimpleNamespace(map=score, precision_at_k=lambda k: {1: first, 10: first_ten}[k])

    def advice(codes, by_outputs=None):
        vectors = SimpleNamespace(scores=ranking(0.590, 0.864, 0.800), name="1,280 floats")
        return advice_against_floats(codes, vectors, method_class("scdh"), np.arange(800) % 8, by_outputs)

    text = advice(ranking(0.669, 0.833, 0.795))
    assert "At the top of the list the 1,280 floats are better, although their MAP is lower" in text
    assert "the precision of the first item is 0.864, of the codes 0.833" in text
    assert "kept embeddings (docs/search.md, ranking by vectors) or more bits (--bits) may come closer" in text
    assert "the precision of the first 10 items is 0.800, of the codes 0.700" in advice(ranking(0.669, 0.833, 0.7))
    assert "--rank outputs of `scdh search` reaches 0.850" in advice(
        ranking(0.669, 0.833, 0.8), ranking(0.67, 0.85, 0.8)
    )
    assert advice(ranking(0.669, 0.86, 0.795)) is None


def test_scores_that_a_random_order_would_have_are_called_so():
    labels = np.array([[1, row % 4 == 0] for row in range(60)])  # every row has the first label
    codes = Codes.from_bits(np.random.default_rng(0).integers(0, 2, (60, 8)))
    assert caution(evaluate(codes, labels, codes, labels)) == (
        "A random order of the items has a MAP of about 1.00, because a query shares a label with 100% of them: labels "
        "that most items have say little."
    )
    assert caution(evaluate(codes, labels[:, 1] + 1, codes[:30], labels[:30, 1] + 1)) is not None
    assert caution(evaluate(codes, np.arange(60) % 3, codes, np.arange(60) % 3)) is None
    few = caution(evaluate(codes[:20], labels[:20], codes, labels), 5)
    assert few is not None
    assert few.endswith(
        "uncertain: they rest on 20 queries (below 50) and 5 validation rows (below 20), which settings were chosen by."
    )


def test_evaluate_prints_and_writes_a_column_of_floats(lsh_run):
    text = must(f"evaluate {lsh_run}")
    assert "64 floats, cosine" in text
    assert "bytes per item" in text
    content = json.loads(lsh_run.scores().read_text("utf-8"))
    assert content["floats"]["map"] > content["map"]
    assert content["floats"]["bytes"] == 256
    assert content["floats"]["definition"]["queries"] == content["definition"]["queries"]
    assert "LSH does not learn from labels; try --method scdh" in content["advice"]
    assert content["advice"] in text
    assert {"1", "10", "100"} <= content["floats"]["precision_at_k"].keys()
    without = run_json(f"evaluate {lsh_run} --no-floats --json")
    assert not {"floats", "no_floats", "advice"} & without.keys()
    assert without["map"] == content["map"]


def test_a_run_with_a_teacher_has_one_row_of_floats(run):
    content = run_json(f"evaluate {run} --json")
    assert content["floats"]["width"] == 64
    assert "floats" not in content["student"]


def test_validation_rows_leave_themselves_out(run):
    result = score_run(run, "validation", floats=True)
    source = source_of(result.config)
    rows = result.protocol.validation
    distances = table_of_distances(source.features[rows], source.features[rows])
    labels = source.labels[rows]
    expected = evaluate_distances(distances, labels, labels, leave_one_out=True)
    assert result.floats.scores.map == pytest.approx(expected.map)


def test_vectors_larger_than_memory_are_left_out_with_the_reason(lsh_run, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    text = must(f"evaluate {lsh_run}")
    assert "are not scored: those of 1,597 items take" in text
    assert "floats, cosine" not in text


def test_no_floats_is_rejected_for_files_of_codes(lsh_run):
    codes = lsh_run.path / "codes"
    message = fails(f"evaluate --queries {codes}/query.codes --database {codes}/database.codes --no-floats")
    assert "--no-floats and --no-outputs are for runs" in message
