"""Every method learns classes that lie apart, from chance to a MAP near 1; its model encodes, searches and serves."""

from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex
from scdh.codes import HAMMING
from scdh.config import load_config
from scdh.methods.registry import method_class
from scdh.model.hasher import Hasher
from scdh.serve import service as service_module
from scdh.serve.settings import Settings
from tests.methods import harness
from tests.methods.harness import METHODS
from tests.serve.conftest import save_index
from tests.serve.hosted import hosted

CLASSES, ROWS, WIDTH, BITS = 4, 60, 16, 16
# Random projections learn nothing; of principal axes three tell four classes apart, and the other bits are noise.
LIMITS = {"lsh": 0.5, "pca": 0.4}
CHANCE = 1 / CLASSES


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), ROWS)
    vectors = 3 * rng.normal(size=(CLASSES, WIDTH))[labels] + rng.normal(size=(len(labels), WIDTH))
    path = tmp_path_factory.mktemp("blobs") / "blobs.npz"
    np.savez(path, X=vectors.astype(np.float32), y=labels)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_it_separates_classes_that_lie_apart(
    name: str, blobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"data.source": str(blobs), "data.query_per_class": 15, "method.name": name, "method.bits": BITS}
    if method_class(name).learns_by_gradient:
        given |= {"train.epochs": 25, "train.batch_size": 32, "train.lr_head": 0.005, "train.lr_trunk": 0.005}
    config = load_config("demo-digits", overrides=given)
    hasher = Hasher.train(config, quiet=True)
    score = harness.query_map(hasher)
    assert score > LIMITS.get(name, 0.9), f"{name}: MAP {score:.3f}; by chance it would be {CHANCE}"

    hasher.save(tmp_path / "model")
    vectors = np.load(blobs)["X"]
    loaded = Hasher.load(tmp_path / "model")
    codes = loaded.encode(vectors)
    assert codes == hasher.encode(vectors)
    if hasher.method.ranking == HAMMING:
        expected = HammingIndex(codes).search(codes[:3], 5)
        assert (expected.distances[:, 0] == 0).all()
    else:
        tables, labels = loaded.distance_tables(loaded.hash_outputs(vectors)), np.load(blobs)["y"]
        nearest = HammingIndex(codes).search(codes, 1, byte_tables=tables)
        assert (labels[nearest.ids[:, 0]] == labels).mean() > 0.9
        expected = HammingIndex(codes).search(codes[:3], 5, byte_tables=tables(slice(0, 3)))
    check_service(tmp_path, loaded, codes, vectors, expected.distances, monkeypatch)


def check_service(
    folder: Path, hasher: Hasher, codes: Codes, vectors: np.ndarray, distances: np.ndarray, patch: pytest.MonkeyPatch
) -> None:
    """The service answers with the hits of the index; it orders equal distances by the outputs of the query."""
    patch.setattr(service_module, "warm_search", lambda snapshot: None)  # loads compiled loops, for seconds
    patch.setattr(service_module, "compile_search", lambda bits, by_tables: [])
    no_labels = np.full(len(codes), -1)
    save_index(folder / "items.index", codes, hasher.fingerprint(), no_labels, [])
    with hosted(Settings(model=folder / "model", index=str(folder / "items.index"))) as site:
        answer = site.http.post("/v1/search/vector", json={"vectors": vectors[:3].tolist(), "k": 5}).json()
    found = [[hit["distance"] for hit in result["hits"]] for result in answer["results"]]
    np.testing.assert_allclose(found, distances, rtol=1e-5, atol=1e-6)
