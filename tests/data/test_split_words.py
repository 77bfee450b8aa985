"""The words that mark parts of a split; words and settings that name others → rows of each part."""

import numpy as np
import pytest

from scdh.data import ArraySource
from scdh.data.marked_rows import PartSettings, has_marks, list_parts, marked_queries, read_marks
from scdh.data.split_words import (
    is_part,
    named_words,
    part_name,
    part_names,
    part_of_file,
    parts_of_files,
    split_column,
    word_key,
)
from scdh.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("train", ["train", "Training", " TRAIN "]),
        ("val", ["val", "valid", "Validation", "DEV"]),
        ("test", ["test", "Testing", "query", "QUERIES", b"test"]),
        ("database", ["Database", "gallery", "index", "base"]),
        ("unlabelled", ["unlabelled", "Unlabeled", "_unlabelled"]),
        ("", ["", "  ", None, float("nan")]),
        ("Hold out", [" Hold out"]),
        ("0", [0, "0"]),
    ],
)
def test_spellings(part: str, words: list[object]) -> None:
    assert [part_name(word) for word in words] == [part] * len(words)
    assert is_part(words[0]) == (part in ("train", "val", "test", "database", "unlabelled"))


def test_columns_and_settings() -> None:
    assert part_names(["Dev", None, "extra", "Dev"]).tolist() == ["val", "", "extra", "val"]
    assert part_names(np.array([1, 0])).tolist() == ["1", "0"]
    assert part_names([]).tolist() == []
    assert named_words("Training, Extra ,validation") == ("train", "extra", "val")
    assert named_words(" , ") == ()
    assert word_key(" EXTRA") == "extra"
    assert split_column(["path", " Split"]) == " Split"
    assert split_column(["path", "splits"]) is None


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("train-00000-of-00005.parquet", "train"),
        ("flowers_TEST2.parquet", "test"),
        ("my.validation.parquet", "val"),
        ("index-train.parquet", "train"),
        ("gallery.parquet", "database"),
        ("trainees.parquet", None),
        ("_unlabeled.parquet", "unlabelled"),
        ("photos.parquet", None),
    ],
)
def test_file_names(file: str, part: str | None) -> None:
    assert part_of_file(file) == part


@pytest.mark.parametrize(
    ("files", "parts"),
    [
        (["flowers_train", "flowers_holdout", "flowers_extra-2"], ["train", "holdout", "extra"]),
        (["test_bench-train", "test_bench-val"], ["train", "val"]),  # a word in all names does not count
        (["TrainData", "testset"], ["train", "test"]),
        (["train", "train_val"], ["train", "val"]),
        (["train", "fold1", "fold2"], ["train", "fold1", "fold2"]),
        (["photos", "database"], None),
    ],
)
def test_names_of_several_files(files: list[str], parts: list[str] | None) -> None:
    assert parts_of_files([f"{file}.parquet" for file in files]) == parts


def source(*words: str) -> ArraySource:
    return ArraySource(np.eye(len(words)), np.arange(len(words)), name="mine", split=np.array(words))


def test_words_of_parts() -> None:
    assert PartSettings().words() == {
        "train": ("train",),
        "query": ("test",),
        "validation": ("val",),
        "database": ("database",),
    }
    assert not PartSettings().are_named
    named = PartSettings(query="Dev", train="gallery")
    assert named.are_named
    assert named.words() == {"train": ("database",), "query": ("val",), "validation": (), "database": ()}
    assert PartSettings(database="train,val").words()["validation"] == ()
    with pytest.raises(ConfigError, match=r"'test' is named by data.query and by data.validation"):
        PartSettings(validation="queries").words()


def test_rows_of_parts() -> None:
    marks = read_marks(source("train", "VAL", "query", "gallery", "unlabeled", " "), PartSettings())
    for row, part in enumerate(("train", "validation", "query", "database", "unlabelled", "unmarked")):
        assert np.flatnonzero(getattr(marks, part)).tolist() == [row], part
    assert not marks.unused.any()
    assert np.flatnonzero(marks.searched).tolist() == [3, 4, 5]
    other = read_marks(source("train", "val", "test", "", "unlabelled"), PartSettings(query="val"))
    assert np.flatnonzero(other.query).tolist() == [1]
    assert np.flatnonzero(other.unused).tolist() == [2]
    assert np.flatnonzero(other.searched).tolist() == [0, 3, 4]
    named = read_marks(source("a", "B", "c"), PartSettings("a", "b", database="A, c"))
    assert np.flatnonzero(named.searched).tolist() == [0, 2]


def test_queries_whatever_else_is_marked() -> None:
    data = source("odd", "query", "Testing", "train")
    query, unused = marked_queries(data, PartSettings())
    assert query.tolist() == [False, True, True, False]
    assert not unused.any()
    query, unused = marked_queries(data, PartSettings(query="odd"))
    assert query.tolist() == [True, False, False, False]
    assert unused.tolist() == [False, True, True, False]
    assert not np.any(marked_queries(ArraySource(np.eye(3)), PartSettings()))
    with pytest.raises(DataError, match="'odd' has no known meaning"):
        read_marks(data, PartSettings())


@pytest.mark.parametrize(
    ("words", "says_something"),
    [
        (["train", "test"], True),
        (["train", "train"], False),
        (["train", ""], True),
        (["", "unlabelled"], False),
        (["odd", "odd"], True),
    ],
)
def test_marks_that_say_something(words: list[str], says_something: bool) -> None:
    assert has_marks(source(*words)) == says_something


def test_many_words_are_cut_short() -> None:
    listed = list_parts(source(*(f"w{i:02}" for i in range(15)), ""))
    assert listed.startswith("an empty cell (1 rows), w00 (1 rows)")
    assert listed.endswith("w10 (1 rows) and 4 more")
    assert list_parts(ArraySource(np.eye(3))) == "none"
