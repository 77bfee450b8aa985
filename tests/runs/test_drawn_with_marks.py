"""Marks and ``data.split=draw`` or ``all``: queries stay queries. Marks that are numbers."""

from typing import Any

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data import ArraySource
from scdh.errors import ConfigError, DataError
from scdh.runs.protocol import protocol_of
from tests.runs.test_protocol import counts, source, split, words_of

DRAWN = ["draw", "all"]


@pytest.mark.parametrize("chosen", DRAWN)
def test_usual_query_words_stay_out_where_another_is_named(chosen: str) -> None:
    data = source(("train", 60), ("val", 20), ("test", 20))
    p = split(data, split=chosen, query="val")
    assert words_of(data, p.query) == {"val"}
    for rows in (p.train, p.validation, p.database, p.unlabelled):
        assert not words_of(data, rows) & {"val", "test"}
    assert "20 rows are of a part that is not used and are left out" in p.about


@pytest.mark.parametrize("chosen", DRAWN)
@pytest.mark.parametrize("method", ["scdh", "itq"])
def test_a_wrong_name_of_the_queries_is_rejected(chosen: str, method: str) -> None:
    data = source(("train", 60), ("holdout", 20))
    data.labels[:] = -1 if method == "itq" else data.labels
    settings = {"method.name": method, "data.split": chosen, "data.query": "holdot"}
    with pytest.raises(DataError, match=r"^mine has no part 'holdot' \(data.query\); its parts are holdout"):
        protocol_of(load_config(overrides=settings), data)
    with pytest.raises(DataError, match=r"^plain does not come divided into parts"):
        split(ArraySource(np.eye(6), np.arange(6) % 2, name="plain"), split=chosen, query="holdout")


@pytest.mark.parametrize("chosen", DRAWN)
@pytest.mark.parametrize("named", [{"train": "fold1"}, {"validation": "train"}, {"database": "train"}])
def test_other_parts_cannot_be_named(chosen: str, named: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^data.{next(iter(named))} names rows .* data.split={chosen} does not"):
        split(source(("train", 60), ("fold1", 20)), split=chosen, **named)


def test_queries_are_drawn_where_none_of_the_marked_ones_has_a_label() -> None:
    data = source(("train", 60), ("test", 20))
    data.labels[60:] = -1
    p = split(data, split="draw")
    assert counts(p)[2:] == (12, 48, 0)
    assert words_of(data, np.concatenate([p.query, p.database])) == {"train"}
    assert "20 rows marked as queries have no label and are left out" in p.about


@pytest.mark.parametrize(
    ("words", "named"),
    [((0, 1), ("0", "1")), ((False, True), ("false", "true")), ((0.0, 1.0), ("0.0", "1.0"))],
)
def test_marks_that_are_numbers_can_be_named(words: tuple[Any, ...], named: tuple[str, str]) -> None:
    data = ArraySource(np.eye(30), np.arange(30) % 2, name="mine", split=np.repeat(words, [20, 10]))
    p = protocol_of(load_config(overrides=[f"data.train={named[0]}", f"data.query={named[1]}"]), data)
    assert counts(p) == (20, 0, 10, 20, 0)


def test_validation_rows_train_beside_the_rows_that_keep_a_label() -> None:
    data = source(("train", 60), ("val", 20), ("test", 20))
    few = split(data, labelled_per_class=5)
    all_ = split(data, labelled_per_class=5, train_on_validation=True)
    assert np.array_equal(all_.train, np.union1d(few.train, few.validation))
    assert np.array_equal(all_.unlabelled, few.unlabelled)
    assert counts(all_) == (30, 0, 20, 60, 50)


@pytest.mark.parametrize("several", [False, True], ids=["one label", "many labels"])
def test_a_class_of_queries_alone_asks_for_no_training_rows(several: bool) -> None:
    data = source(("train", 40), ("test", 10), classes=3)
    queries = data.rows_of_parts("test")
    data.labels[queries[:4]], data.label_names = 3, ["a", "b", "c", "only queries"]
    if several:
        data.labels = np.eye(4, dtype=np.uint8)[data.labels]
    p = split(data, train_per_class=5, validation_per_class=2)
    assert counts(p)[:3] == (9, 6, 10)
    assert "4 queries have no label that a database row has, and score 0" in p.about


def test_rows_without_labels_say_which_do_not_train() -> None:
    data = source(("train", 40), ("test", 10))
    data.labels[:] = -1
    p = protocol_of(load_config(overrides={"method.name": "itq"}), data)
    assert counts(p) == (40, 0, 0, 40, 0)
    assert p.about.endswith("10 rows are marked as parts that do not train")
