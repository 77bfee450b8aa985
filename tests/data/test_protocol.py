"""Splits: exact sizes, no leak, the same seed the same rows, and balanced orders."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.config import load_config
from scdh.data import ArraySource, Protocol, balanced_order
from scdh.data.protocol import PARTS
from scdh.errors import DataError
from scdh.runs.protocol import protocol_of
from tests.data.drawn import draw


def example(seed: int = 0, n: int = 200, **changes: int | None) -> Protocol:
    sizes: dict[str, int | None] = {"query_per_class": 3, "train_per_class": 6, "validation_per_class": 2}
    return draw(np.arange(n) % 5, seed=seed, name="x", **(sizes | changes))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(
    classes=st.integers(1, 7),
    query=st.integers(1, 4),
    train=st.none() | st.integers(1, 6),
    held=st.integers(0, 3),
    spare=st.integers(0, 5),
    unlabelled=st.integers(0, 5),
    seed=st.integers(0, 2**32),
    inside=st.booleans(),
)
def test_single_label_sizes_and_disjointness(classes, query, train, held, spare, unlabelled, seed, inside):
    each = query + max(train or 0, held + 1) + spare
    labels = np.concatenate([np.repeat(np.arange(classes), each), np.full(unlabelled, -1)])
    labels = np.random.default_rng(seed).permutation(labels)
    if train is not None and held >= train:
        held = train - 1
    p = draw(
        labels,
        query_per_class=query,
        train_per_class=train,
        validation_per_class=held,
        train_in_database=inside,
        seed=seed,
        name="h",
    )
    learn = each - query if train is None else train
    assert np.bincount(labels[p.query]).tolist() == [query] * classes
    assert np.bincount(labels[p.train]).tolist() == [learn - held] * classes
    assert np.bincount(labels[p.validation], minlength=classes).tolist() == [held] * classes
    assert set(np.flatnonzero(labels < 0)) <= set(p.database)
    rows = {part: set(getattr(p, part).tolist()) for part in PARTS}
    assert not rows["query"] & (rows["train"] | rows["database"] | rows["validation"])
    assert not rows["train"] & rows["validation"]
    assert len(p.database) == len(labels) - len(p.query) - (0 if inside else classes * learn)
    assert all((np.diff(getattr(p, part)) > 0).all() for part in PARTS)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), labels=st.integers(2, 6))
def test_multi_label_quota_gives_published_sizes(seed: int, labels: int) -> None:
    rng = np.random.default_rng(seed)
    hot = (rng.random((400, labels)) < np.linspace(0.15, 0.8, labels)).astype(np.uint8)
    p = draw(hot, query_per_class=4, train_per_class=8, validation_per_class=2, seed=seed, name="m")
    assert (len(p.query), len(p.train), len(p.validation)) == (4 * labels, 6 * labels, 2 * labels)
    assert (hot[p.query].sum(axis=0) >= 4).all()
    assert hot[p.train].any(axis=1).all()
    assert len(p.database) == 400 - len(p.query)


def test_rows_are_taken_for_the_rarest_label() -> None:
    """Label 1 occurs only together with label 0; counting its rows for label 0 would leave it short."""
    hot = np.array([[1, 1]] * 4 + [[1, 0]] * 40, np.uint8)
    for seed in range(20):
        p = draw(hot, query_per_class=4, seed=seed, name="m")
        assert hot[p.query].sum(axis=0).tolist() == [8, 4]


def test_seed_and_fingerprint() -> None:
    assert example(1) == example(1)
    assert example(1).fingerprint == example(1).fingerprint
    prints = {example(seed).fingerprint for seed in range(30)}
    assert len(prints) == 30
    assert len(example(1).fingerprint) == 16
    same_rows = Protocol("other name", 1, *(getattr(example(1), part) for part in PARTS))
    assert same_rows.fingerprint != example(1).fingerprint


def test_save_and_load(tmp_path: Path) -> None:
    p = example()
    p.save(tmp_path / "p.json")
    again = Protocol.load(tmp_path / "p.json")
    assert again == p
    assert again.train.dtype == np.int64
    assert [f.name for f in tmp_path.iterdir()] == ["p.json"]
    content = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "changed.json").write_text(json.dumps(content | {"about": "another text"}))
    with pytest.raises(DataError, match="changed or damaged after it was written"):
        Protocol.load(tmp_path / "changed.json")
    del content["checksum"]  # as after an edit by hand
    (tmp_path / "changed.json").write_text(json.dumps(content))
    assert Protocol.load(tmp_path / "changed.json") == p
    content["query"][0] += 1
    (tmp_path / "changed.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="the file was changed"):
        Protocol.load(tmp_path / "changed.json")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "fingerprint": 2}', "\x80\x04"])
def test_load_rejects_other_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(DataError, match="not a whole protocol file"):
        Protocol.load(tmp_path / "p.json")
    with pytest.raises(DataError, match="There is no protocol file"):
        Protocol.load(tmp_path / "q.json")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [1], [0, 2], []), "1 rows both in query and in train"),
        (([0], [1, 2], [0, 1, 2], []), "2 rows both in query and in database"),
        (([0, 3], [1], [0], [3]), "1 rows both in validation and in train"),
        (([0], [1], [0], [1]), "1 rows both in validation and in query"),
        (([0], [9], [0], []), "1 query rows of protocol 'x' are outside 0 to 4"),
        (([-1], [1], [0], []), "1 train rows of protocol 'x' are outside 0 to 4"),
        (([0, 0, 0], [1], [0], []), "2 train rows of protocol 'x' come more than once"),
    ],
)
def test_check(parts: tuple[list[int], ...], message: str) -> None:
    protocol = Protocol("x", 0, *(np.array(part, dtype=np.int64) for part in parts))
    with pytest.raises(DataError, match=message):
        protocol.check(5)


def test_parts_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        example().train[0] = 3


def test_too_few() -> None:
    labels = np.array([0] * 10 + [1] * 4)
    with pytest.raises(DataError, match="Class 'owl' has only 4 rows left for the query part, but 5 per class"):
        draw(labels, query_per_class=5, seed=0, name="x", label_names=["cat", "owl"])
    with pytest.raises(DataError, match="Class 1 has only 1 rows left for the training part, but 2"):
        draw(labels, query_per_class=3, train_per_class=2, seed=0, name="x")
    with pytest.raises(DataError, match="'bee' has only 0 rows"):
        draw(labels, query_per_class=1, seed=0, name="x", label_names=["cat", "owl", "bee"])
    hot = np.array([[1, 0]] * 9 + [[1, 1]], np.uint8)
    with pytest.raises(DataError, match="Class 'b' has only 1 rows left"):
        draw(hot, query_per_class=2, seed=0, name="x", label_names=["a", "b"])
    with pytest.raises(DataError, match="No row has a label"):
        draw(np.full(5, -1), query_per_class=1, seed=0, name="x")
    with pytest.raises(DataError, match="leaves no rows to train on"):
        example(train_per_class=2)
    with pytest.raises(DataError, match="must be 0 or more, not -1"):
        example(query_per_class=-1)
    with pytest.raises(DataError, match="seed must be a whole number, 0 or more, not -1"):
        example(seed=-1)


def test_unlabelled_is_what_training_may_see_without_labels() -> None:
    labels = np.concatenate([np.arange(60) % 3, np.full(10, -1)])
    p = draw(labels, query_per_class=4, train_per_class=5, validation_per_class=2, seed=0, name="x")
    assert (len(p.train), len(p.validation), len(p.database), len(p.unlabelled)) == (9, 6, 58, 43)
    assert set(range(60, 70)) <= set(p.unlabelled.tolist())
    assert set(p.unlabelled) == set(p.database) - set(p.train) - set(p.validation)
    apart = Protocol("x", 0, np.array([0]), np.array([1]), np.array([2, 4, 3]), np.array([3]))
    assert apart.unlabelled.tolist() == [2, 4]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any),
    multi=st.booleans(),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_few_labels_are_nested_and_at_most(sizes: list[int], multi: bool, seed: int, data: st.DataObject) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if multi:
        hot = np.eye(len(sizes), dtype=np.uint8)[labels]
        labels = hot | (np.random.default_rng(seed).random(hot.shape) < 0.2).astype(np.uint8)
    rows, no_rows = np.arange(len(labels)), np.empty(0, np.int64)
    whole = Protocol("whole", seed, rows, no_rows, rows, no_rows)
    more = data.draw(st.integers(1, 13))
    fewer = data.draw(st.integers(1, more))
    large, small = (whole.keep_labels(labels, count, seed=seed) for count in (more, fewer))
    assert set(small.train) <= set(large.train)
    assert large == whole.keep_labels(labels, more, seed=seed)
    assert set(small.train) | set(small.unlabelled) == set(rows)
    assert np.array_equal(small.database, whole.database)
    if not multi:
        assert np.bincount(labels[large.train], minlength=len(sizes)).tolist() == [min(more, n) for n in sizes]
    else:
        assert 0 < len(large.train) <= more * len(sizes)
        assert (labels[large.train].sum(axis=0) >= np.minimum(more, labels.sum(axis=0))).all()


def test_few_labels_change_name_and_fingerprint_and_nothing_else() -> None:
    labels = np.arange(200) % 5
    whole = example(train_per_class=20)
    few = whole.keep_labels(labels, 3, seed=0)
    assert few.name == "x, 3 labels a class"
    assert few.fingerprint != whole.fingerprint
    assert len(few.train) == 15
    for part in ("query", "database", "validation"):
        assert np.array_equal(getattr(few, part), getattr(whole, part))
    assert set(whole.train) - set(few.train) <= set(few.unlabelled)
    assert not np.array_equal(few.train, whole.keep_labels(labels, 3, seed=1).train)
    everything = whole.keep_labels(labels, 99, seed=0)
    assert np.array_equal(everything.train, whole.train)
    with pytest.raises(DataError, match="At least 1 row per class must keep its label, not 0"):
        whole.keep_labels(labels, 0, seed=0)
    lonely = np.append(np.full(199, -1), 0)
    with pytest.raises(DataError, match="None of the 90 training rows of protocol 'x' has a label"):
        whole.keep_labels(lonely, 1, seed=0)
    apart = draw(labels, query_per_class=3, train_per_class=6, train_in_database=False, seed=0, name="x")
    with pytest.raises(DataError, match="25 training rows of protocol 'x' are not in its database"):
        apart.keep_labels(labels, 1, seed=0)


@pytest.mark.parametrize("split", ["draw", "given", "all"])
def test_a_run_with_few_labels(split: str) -> None:
    parts = np.array(["train"] * 50 + ["test"] * 10)
    labels = np.append(np.arange(50) % 2, np.arange(10) % 2)
    labels[:6] = -1
    source = ArraySource(np.eye(60, dtype=np.float32), labels, split=None if split == "draw" else parts)
    chosen = {
        "data.split": split,
        "data.query_per_class": 5,
        "data.labelled_per_class": 4,
        "data.validation_per_class": 0,
    }
    p = protocol_of(load_config(overrides=chosen), source)
    assert np.bincount(labels[p.train]).tolist() == [4, 4]
    assert len(p.query) == 10
    assert len(p.unlabelled) == len(p.database) - 8 - len(p.validation) == 42
    assert set(range(6)) <= set(p.unlabelled)


def test_rows_that_stand_apart_without_label_are_searched() -> None:
    parts = np.array(["train"] * 4 + ["test"] * 2 + ["unlabelled"] * 3)
    source = ArraySource(np.eye(9, dtype=np.float32), np.array([0, 1, 0, 1, 0, 1, -1, -1, -1]), split=parts)
    p = protocol_of(load_config(), source)
    assert (p.database.tolist(), p.unlabelled.tolist()) == ([0, 1, 2, 3, 6, 7, 8], [6, 7, 8])


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), free=st.integers(0, 5), seed=st.integers(0, 999))
def test_balanced_single(sizes: list[int], free: int, seed: int) -> None:
    labels = np.concatenate([np.full(free, -1), np.repeat(np.arange(len(sizes)), sizes)])
    order = balanced_order(labels, np.random.default_rng(seed))
    assert len(order) == len(labels)
    counts = np.bincount(labels[order][labels[order] >= 0], minlength=len(sizes))
    assert counts.max() - counts.min() <= 1
    assert sorted(order[labels[order] < 0].tolist()) == list(range(free))
    times = np.bincount(order, minlength=len(labels))
    for number in range(len(sizes)):
        within = times[labels == number]
        assert within.max() - within.min() <= 1


def test_balanced_multi_evens_out_labels() -> None:
    hot = np.zeros((1000, 3), np.uint8)
    hot[:, 0] = 1
    hot[:200, 1] = 1
    hot[:20, 2] = 1
    order = balanced_order(hot, np.random.default_rng(0))
    assert len(order) == 1000
    plain, even = hot.sum(axis=0), hot[order].sum(axis=0)
    assert even[2] > 10 * plain[2]
    assert even[1] > 2 * plain[1]
    unlabelled = np.vstack([hot, np.zeros((7, 3), np.uint8)])
    assert (np.bincount(balanced_order(unlabelled, np.random.default_rng(0)))[1000:] == 1).all()
