"""Words of a split and settings that name others → rows of each part."""

import numpy as np
import pytest

from scdh.data import ArraySource
from scdh.data.marked_rows import PartSettings, has_marks, list_parts, marked_queries, read_marks
from scdh.errors import ConfigError, DataError


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
