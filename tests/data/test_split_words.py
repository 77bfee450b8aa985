"""The words that mark parts of a split."""

import numpy as np
import pytest

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
