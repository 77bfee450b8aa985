"""The words that mark the parts of data: in a column or array ``split``, as folders, as file names, on the hub.

Capitals and surrounding blanks do not matter. Words that are not known here keep their spelling: a setting such as
``data.query`` may name them, and without one a run asks (:mod:`scdh.data.marked_rows`).
"""

import re
from collections.abc import Collection, Iterable

import numpy as np

TRAIN = "train"
VAL = "val"
TEST = "test"
DATABASE = "database"
UNLABELLED = "unlabelled"  # also the folder of images without a label, in the place of a class
UNMARKED = ""  # an empty cell
MOST_WORDS = 50  # different words of a split; a column with more holds something else
LONGEST_NAME = 20  # of a column of flags that is called as a part
_SPELLINGS = {
    TRAIN: ("train", "training"),
    VAL: ("val", "valid", "validation", "dev"),
    TEST: ("test", "testing", "query", "queries"),
    DATABASE: ("database", "gallery", "index", "base"),
    UNLABELLED: ("unlabelled", "unlabeled", "_unlabelled", "_unlabeled"),
}
_PART_OF_WORD = {word: part for part, words in _SPELLINGS.items() for word in words}
COLUMN = "split"
# Columns that hold a split only if their words show it: their names are used for other things too.
OTHER_COLUMNS = ("subset", "partition", "data_split", "part", "set", "phase", "usage", "dataset")


def part_name(word: object) -> str:
    """The usual name of a part ("Validation " is val, "gallery" is database); other words only lose their blanks.

    None and NaN, which tables have for an empty cell, are ``UNMARKED``.
    """
    if word is None or word != word:
        return UNMARKED
    text = (word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)).strip()
    return _PART_OF_WORD.get(text.lower(), text)


def is_part(word: object) -> bool:
    """Whether a word is one of those above."""
    return part_name(word) in _SPELLINGS


def part_names(words: Iterable[object]) -> np.ndarray:
    """str [n]: :func:`part_name` of every row."""
    known: dict[object, str] = {}
    names = []
    for word in words:
        if word not in known:
            known[word] = part_name(word)
        names.append(known[word])
    return np.array(names, dtype=str)


def named_words(text: str) -> tuple[str, ...]:
    """The parts that a setting names, several joined by commas, in the form of :func:`word_key`."""
    return tuple(word_key(word) for word in text.split(",") if word.strip())


def word_key(word: object) -> str:
    """A form in which two spellings of one word are equal."""
    return part_name(word).lower()


def split_column(names: Iterable[str]) -> str | None:
    """The column, or array, that is called ``split`` whatever the capitals."""
    return next((name for name in names if name.strip().lower() == COLUMN), None)


def marks_parts(column: str, words: Collection[object]) -> bool:
    """Whether a column, or array, that is not called ``split`` holds one, by its name and its different words.

    Under any name, words of several parts and nothing else, training and held-out ones among them. Under one of
    ``OTHER_COLUMNS`` also words of a single part; and other words next to clear ones (train, test, extra), or longer
    ones that tell their part (train2017, val2017): these must be explained by a setting, because held-out rows must
    never train.
    """
    if len(words) > MOST_WORDS:
        return False
    parts = {part for word in words if (part := part_name(word)) != UNMARKED}
    is_usual_name = column.strip().lower() in OTHER_COLUMNS
    if parts and all(map(is_part, parts)):
        return is_usual_name or (TRAIN in parts and bool(parts & {VAL, TEST}))
    meant = {part_of_name(part) for part in parts}
    return is_usual_name and TRAIN in meant and bool(meant & {VAL, TEST})


def note_on_flags(column: str, words: Collection[object]) -> str:
    """A sentence if a column of two values has the name of a part (``is_test``), and so may mark one."""
    part = part_of_name(column) if len(column) < LONGEST_NAME else None
    flags = sorted(map(part_name, words))
    if part not in (TRAIN, VAL, TEST) or [flag.lower() for flag in flags] not in (["0", "1"], ["false", "true"]):
        return ""
    setting = {TRAIN: "query", VAL: "validation", TEST: "query"}[part]
    train, other = (flags[1], flags[0]) if part == TRAIN else flags
    return (
        f"column {column!r} is not followed; --set data.split_column={column} --set data.train={train} "
        f"--set data.{setting}={other} follows it"
    )


def part_of_file(name: str) -> str | None:
    """The part that a file's name means ("train-00000-of-00005.parquet", "flowers_test2.parquet"), or None."""
    return part_of_name(name.rpartition(".")[0])


def part_of_name(name: str) -> str | None:
    """The part that a word of a longer name means ("train images", "TestSet", "shop_val"), or None."""
    words = re.split(r"[^a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    words = [word if is_part(word) else re.sub("(set|data)$", "", word) for word in words]
    parts = list(dict.fromkeys(part_name(word) for word in words if is_part(word)))
    if len(parts) > 1:  # "base-train": index and base are also names of other things
        parts = [part for part in parts if part != DATABASE]
    return parts[0] if parts else None


def parts_of_files(names: list[str]) -> list[str] | None:
    """The part that each file name indicates; None if they indicate none. Words that all names have in common are
    ignored. Next to files that are clearly parts, another file's part is the first word that not all names have: a
    setting must explain it.
    """
    pieces = [[piece for piece in re.split(r"[-_. ]+", name.rpartition(".")[0]) if piece] for name in names]
    shared = set.intersection(*map(set, pieces)) if len(names) > 1 else set()
    own = [[piece for piece in found if piece not in shared] for found in pieces]
    parts = [part_of_name(" ".join(piece)) or part_of_file(name) for piece, name in zip(own, names, strict=True)]
    if None in parts and not {TRAIN, VAL, TEST} & set(parts):
        return None
    words = [(piece or found or [name])[0] for piece, found, name in zip(own, pieces, names, strict=True)]
    return [part or word for part, word in zip(parts, words, strict=True)]
