"""A method that ranks by a distance of its own: trained, validated, scored and searched by it, not by bits."""

import json

import numpy as np
import pytest

from scdh.codes import RANKING, Codes
from scdh.config import load_config
from scdh.errors import CodesError, ConfigError
from scdh.evaluation import evaluate, evaluate_distances
from scdh.index import HammingIndex
from scdh.index.weights import weight_tables
from scdh.methods.base import About
from scdh.methods.dsh import Dsh
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.scoring import score_run
from tests.methods.toys import use_as_toy
from tests.training.settled import train


class WeightedDsh(Dsh):
    """DSH whose items are ranked by Σ |u_k| over the bits that differ from the query's real outputs u."""

    about = About("Weighted DSH", "pairwise", 2026, "a test", cost="none", fidelity="variant", differs="a test")
    ranking = "weighted distance"

    def distance_tables(self, net, u):
        halves = weight_tables(Codes.from_signs(u), np.abs(u).astype(np.float64))
        return (halves[:, ::2, None, :] + halves[:, 1::2, :, None]).reshape(len(u), -1, 256)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use_as_toy(patch, WeightedDsh)
        settings = {"method.name": "toy", "train.epochs": 2, "method.bits": 12, "data.validation_per_class": 5}
        settings["method.corner_weight"] = 0.01  # with 0.02 two epochs leave one code
        folder = tmp_path_factory.mktemp("own") / "run"
        train(load_config("demo-digits", overrides=settings), folder, quiet=True)
        yield RunFolder(folder)


def test_it_is_scored_by_its_own_distance(run):
    result = score_run(run)
    assert "weighted distance" in result.scores.definition["words"]
    hasher, source = run.load_model(), source_of(run.config())
    protocol = run.protocol(source)
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
    content = json.loads(run.scores().read_text())
    assert content["map"] == result.scores.map
    assert "precision_at_radius" not in content


def test_validation_goes_by_its_distance(run):
    best = run.model_info()["validation_map"]
    assert score_run(run, "validation").scores.map == pytest.approx(best, abs=1e-6)


def test_its_codes_are_searched_by_its_distance_only(run):
    hasher = run.load_model()
    codes, u = hasher.encode(np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32), outputs=True)
    assert codes.metadata[RANKING] == "weighted distance"
    index = HammingIndex(Codes.load(run.codes("database")))
    with pytest.raises(CodesError, match=r"ranked by weighted distance"):
        index.search(codes)
    plain = HammingIndex(Codes(index.codes.packed, 12, index.ids))
    hits = index.search(codes, 20, byte_tables=hasher.distance_tables(u))
    expected = plain.search(Codes(codes.packed, 12), 20, weights=abs(u))
    assert np.array_equal(hits.ids, expected.ids)
    assert np.array_equal(hits.distances, expected.distances)
    with pytest.raises(ConfigError, match="cannot recover outputs from codes"):
        hasher.distance_tables(codes)


def test_the_model_keeps_it(run):
    hasher = Hasher.load(run.path)
    assert hasher.method.ranking == "weighted distance"
