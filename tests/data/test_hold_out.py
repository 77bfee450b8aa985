"""Held-out rows that fit the data: their numbers, and what holds whatever the labels are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.data import hold_out as module
from scdh.data.draw import seeded
from scdh.data.hold_out import HeldOut, fitting_queries, fitting_validation, hold_out
from scdh.label_arrays import is_labelled


def divide(labels: np.ndarray, seed: int = 0, **numbers: int | None) -> HeldOut:
    order = seeded(seed).permutation(np.flatnonzero(is_labelled(labels)))
    return hold_out(labels, order, **({"query_per_class": None, "validation_per_class": None} | numbers))


def sizes(parts: HeldOut) -> tuple[int, int, int]:
    return len(parts.query), len(parts.train), len(parts.validation)


@pytest.mark.parametrize(
    ("rows", "queries", "validation"),
    [
        *[(1, 0, 0), (2, 1, 0), (3, 1, 0), (7, 1, 0), (8, 2, 0), (9, 2, 0), (10, 2, 2), (25, 5, 2), (50, 10, 4)],
        *[(100, 20, 8), (500, 100, 40), (625, 100, 50), (5000, 100, 50)],
    ],
)
def test_numbers_of_a_class(rows: int, queries: int, validation: int) -> None:
    labels = np.repeat(np.arange(12), rows)
    parts = divide(labels)
    assert np.bincount(labels[parts.query], minlength=12).tolist() == [queries] * 12
    assert np.bincount(labels[parts.validation], minlength=12).tolist() == [validation] * 12
    assert len(parts.train) == 12 * (rows - queries - validation)


def test_many_classes_are_thinned_evenly() -> None:
    pairs = divide(np.repeat(np.arange(20_000), 2))
    assert sizes(pairs) == (5_000, 35_000, 0)
    labels = np.repeat(np.arange(200), 150)
    parts = divide(labels)
    assert np.bincount(labels[parts.query]).tolist() == [25] * 200
    assert np.bincount(labels[parts.validation]).tolist() == [10] * 200
    labels = np.repeat(np.arange(1_500), 20)
    held = np.bincount(labels[divide(labels).validation], minlength=1_500)
    assert sorted(np.unique(held)) == [0, 2]  # never a single one, which would find nothing
    assert held.sum() == 2_000


def test_too_little_to_validate_is_said() -> None:
    (note,) = divide(np.repeat(np.arange(5), 10)).notes
    assert note == "no validation, as fewer than 20 rows can be held out (of classes with at least 8 training rows)"
    one_class = divide(np.repeat([0], 500))
    assert sizes(one_class) == (100, 400, 0)  # every ranking is perfect
    assert "only one class" in one_class.notes[0]
    parts = divide(np.arange(40))
    assert sizes(parts) == (0, 40, 0)
    assert "no class has two labelled rows" in parts.notes[0]
    assert sizes(divide(np.full(9, -1))) == (0, 0, 0)
    assert sizes(divide(np.zeros((9, 0), np.uint8))) == (0, 0, 0)
    assert divide(np.repeat(np.arange(5), 10), validation_per_class=0).notes == ()


def test_photos_with_many_labels() -> None:
    rng = np.random.default_rng(0)
    hot = (rng.random((7_000, 80)) < np.geomspace(0.3, 0.002, 80)).astype(np.uint8)
    parts = divide(hot)
    assert 700 < len(parts.query) <= 1_500
    assert 300 < len(parts.validation) <= 1_000
    assert (hot[parts.query].sum(axis=0) >= 1).all()


def test_a_number_and_a_fit_together() -> None:
    labels = np.repeat(np.arange(4), 100)
    parts = divide(labels, query_per_class=7, train_per_class=50)
    assert np.bincount(labels[parts.query]).tolist() == [7] * 4
    assert np.bincount(labels[parts.validation]).tolist() == [5] * 4
    assert np.bincount(labels[parts.train]).tolist() == [45] * 4
    assert sizes(divide(labels, query_per_class=0, validation_per_class=0)) == (0, 400, 0)


def slow_counts(labels: np.ndarray, order: np.ndarray, rule: str) -> dict[int, int]:
    """Rows of each class that are to be held out, where no cap on the total is reached; one label per row."""
    counts = {}
    for number in set(labels[order].tolist()):
        n = int((labels[order] == number).sum())
        if rule == "query":
            counts[number] = 0 if n < 2 else min(100, max(1, int(n / 5 + 0.5)))
        else:
            counts[number] = 0 if n < 8 else min(50, max(2, int(n / 10 + 0.5)))
    return counts


LABELS = st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(any)


@settings(max_examples=80, deadline=None)
@given(rows=LABELS, multi=st.booleans(), free=st.integers(0, 4), seed=st.integers(0, 2**32), most=st.integers(1, 40))
def test_what_always_holds(rows: list[int], multi: bool, free: int, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.append(np.repeat(np.arange(len(rows)), rows), np.full(free, -1)))
    if multi:
        hot = (rng.random((len(labels), len(rows))) < 0.2).astype(np.uint8)
        hot[np.flatnonzero(labels >= 0), labels[labels >= 0]] = 1
        hot[labels < 0] = 0
        labels = hot
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUERY_MOST", most)
        patch.setattr(module, "VALIDATION_MOST", most)
        parts, again = divide(labels, seed), divide(labels, seed)
    together = np.concatenate([parts.query, parts.train, parts.validation])
    assert np.array_equal(np.sort(together), np.flatnonzero(is_labelled(labels)))  # each labelled row in one part
    for part in ("query", "train", "validation"):
        assert np.array_equal(getattr(parts, part), getattr(again, part))
    assert len(parts.query) <= min(most, 0.2 * len(together) + len(rows))
    assert len(parts.validation) <= most
    assert len(parts.validation) == 0 or len(parts.validation) >= module.VALIDATION_LEAST
    hot = labels if multi else np.eye(len(rows), dtype=np.uint8)[labels] * (labels >= 0)[:, None]
    of_label, queried, trained = (hot[r].sum(axis=0) for r in (together, parts.query, parts.train))
    assert (queried[of_label == 1] == 0).all()
    assert (trained[of_label >= 1] >= 1).all()


@settings(max_examples=40, deadline=None)
@given(rows=LABELS, seed=st.integers(0, 2**32))
def test_the_slow_rule_says_the_same(rows: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(rows)), rows)
    order = np.random.default_rng(seed).permutation(len(labels))
    queries = fitting_queries(labels, order)
    assert {c: int((labels[queries] == c).sum()) for c in set(labels.tolist())} == slow_counts(labels, order, "query")
    rest = order[~np.isin(order, queries)]
    validation, counts = fitting_validation(labels, rest), slow_counts(labels, rest, "validation")
    enough = sum(counts.values()) >= 20 and sum(count > 0 for count in counts.values()) >= 2
    assert len(validation) == (sum(counts.values()) if enough else 0)


def test_rows_depend_on_labels_and_seed_only() -> None:
    labels = np.arange(300) % 6
    one, other = divide(labels, 1), divide(labels, 2)
    assert not np.array_equal(one.query, other.query)
    assert np.array_equal(one.query, divide(labels + 10, 1).query)  # names and numbers of classes have no effect
