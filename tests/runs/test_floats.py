"""The float vectors behind the codes of a run, scored next to them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from scdh.data.arrays.memory import ArraySource
from scdh.evaluation import evaluate_distances
from scdh.methods.registry import method_class
from scdh.runs import floats as module
from scdh.runs.floats import advice_against_floats, score_floats
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.score_options import ScoreOptions
from scdh.runs.scoring import score_run
from tests.cli.commands import must, run, run_json
from tests.methods.harness import digits
from tests.training.settled import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run with validation rows, and a fitted one of few bits."""
    folder = tmp_path_factory.mktemp("floats")
    train(digits("mt_scdh", 2, **{"data.validation_per_class": 5}), folder / "taught", quiet=True)
    train(digits("lsh", **{"method.bits": 8}), folder / "lsh", quiet=True)
    return folder


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
    assert "more bits (--bits) may come closer" in text
    assert "the precision of the first 10 items is 0.800, of the codes 0.700" in advice(ranking(0.669, 0.833, 0.7))
    assert "--rank outputs of `scdh search` reaches 0.850" in advice(
        ranking(0.669, 0.833, 0.8), ranking(0.67, 0.85, 0.8)
    )
    assert advice(ranking(0.669, 0.86, 0.795)) is None


def test_evaluate_prints_and_writes_a_column_of_floats(runs):
    text = must(f"evaluate {runs}/lsh")
    assert "64 floats, cosine" in text
    assert "bytes per item" in text
    content = json.loads(RunFolder(runs / "lsh").scores().read_text("utf-8"))
    assert content["floats"]["map"] > content["map"]
    assert content["floats"]["bytes"] == 256
    assert content["floats"]["definition"]["queries"] == content["definition"]["queries"]
    assert "LSH does not learn from labels; try --method scdh" in content["advice"]
    assert content["advice"] in text
    assert {"1", "10", "100"} <= content["floats"]["precision_at_k"].keys()
    without = run_json(f"evaluate {runs}/lsh --no-floats --json")
    assert not {"floats", "no_floats", "advice"} & without.keys()
    assert without["map"] == content["map"]


def test_a_run_with_a_teacher_has_one_row_of_floats(runs):
    content = run_json(f"evaluate {runs}/taught --json")
    assert content["floats"]["width"] == 64
    assert "floats" not in content["student"]


def test_validation_rows_leave_themselves_out(runs):
    result = score_run(RunFolder(runs / "taught"), "validation", floats=True)
    source = source_of(result.config)
    rows = result.protocol.validation
    distances = table_of_distances(source.features[rows], source.features[rows])
    labels = source.labels[rows]
    expected = evaluate_distances(distances, labels, labels, leave_one_out=True)
    assert result.floats is not None
    assert result.floats.scores.map == pytest.approx(expected.map)


def test_vectors_larger_than_memory_are_left_out_with_the_reason(runs, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    text = must(f"evaluate {runs}/lsh")
    assert "are not scored: those of 1,597 items take" in text
    assert "floats, cosine" not in text


def test_no_floats_is_rejected_for_files_of_codes(runs):
    codes = runs / "lsh" / "codes"
    code, _, message = run(f"evaluate --queries {codes}/query.codes --database {codes}/database.codes --no-floats")
    assert code == 2
    assert "--no-floats and --no-outputs are for runs" in message
