"""Numbers that must stay the same between versions: runs made earlier are compared and resumed by them."""

import numpy as np

from scdh.data.arrays.memory import ArraySource
from scdh.data.batches.loaders import training_batches
from scdh.data.batches.views import ViewedFeatures
from scdh.data.draw import balanced_order
from tests.data.drawn import draw

SINGLE = np.where(np.arange(60) < 50, np.arange(60) % 5, -1)
MULTI = (np.arange(60)[:, None] % np.array([2, 3, 5]) == 0).astype(np.uint8)
SPLIT = np.array(["train"] * 40 + ["test"] * 20)
VECTORS = np.arange(240, dtype=np.float32).reshape(60, 4)


def first_rows(**options) -> list[int]:
    source = ArraySource(VECTORS, SINGLE)
    batches = training_batches(source, np.arange(30), batch_size=8, seed=3, epoch=2, **options)
    return next(batches).rows.tolist()


def test_fingerprints_of_sources() -> None:
    source = ArraySource(VECTORS, SINGLE, split=SPLIT)
    assert source.fingerprint() == "5e41fa95a3265ceb"
    assert source.content_fingerprint() == "f6163d42b743c40a"


def test_fingerprints_of_protocols() -> None:
    single = draw(SINGLE, query_per_class=2, train_per_class=4, validation_per_class=1, seed=7, name="single")
    assert single.fingerprint == "20bc18aba68fbfcd"
    assert single.keep_labels(SINGLE, 2, seed=3).fingerprint == "1cc366bf79180ba4"
    multi = draw(MULTI, query_per_class=2, train_per_class=4, seed=7, name="multi")
    assert multi.fingerprint == "0965a2ac43c82753"


def test_rows_of_the_first_batch() -> None:
    assert first_rows() == [10, 4, 1, 5, 25, 22, 2, 18]
    assert first_rows(balanced=True) == [7, 16, 25, 1, 3, 18, 26, 21]
    assert first_rows(unlabelled=np.arange(30, 60)) == [10, 4, 1, 5, 25, 22, 2, 18, 53, 48, 30, 51, 57, 42, 46, 31]


def test_balanced_orders() -> None:
    expected = [2, 3, 10, 18, 17, 11, 13, 9, 0, 7, 19, 8, 4, 15, 5, 1, 6, 14, 12, 16]
    assert balanced_order(SINGLE[40:], np.random.default_rng(4)).tolist() == expected
    assert balanced_order(MULTI[:12], np.random.default_rng(4)).tolist() == [7, 9, 1, 11, 10, 5, 10, 6, 5, 3, 0, 4]


def test_versions_of_cached_features() -> None:
    """Which of three versions each row of the first batch shows: version v of a row holds the number v."""
    versions = [np.full((60, 1), version, np.float32) for version in range(3)]
    source = ViewedFeatures(versions, SINGLE, list("abcde"))
    batch = next(training_batches(source, np.arange(30), batch_size=8, seed=3, epoch=2, views=2))
    assert batch.inputs.flatten().tolist() == [1.0, 2.0, 0.0, 2.0, 1.0, 2.0, 2.0, 0.0]
    assert batch.other_views[0].flatten().tolist() == [0.0, 2.0, 2.0, 0.0, 0.0, 1.0, 2.0, 0.0]
