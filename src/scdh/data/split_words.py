"""The words by which data mark their parts: in a column or array ``split``, as folders, as file names, on the hub.

Capitals and surrounding blanks do not matter. Words that are not known here keep their spelling: a setting such as
``data.query`` may name them, and without one a run asks (:mod:`scdh.data.marked_rows`).
"""

import re
from collections.abc import Iterable

import numpy as np

TRAIN, VAL, TEST, DATABASE = "train", "val", "test", "database"
UNLABELLED = "unlabelled"  # also the folder of images without a label, in the place of a class
UNMARKED = ""  # an empty cell
_SPELLINGS = {
    TRAIN: ("train", "training"),
    VAL: ("val", "valid", "validation", "dev"),
    TEST: ("test", "testing", "query", "queries"),
    DATABASE: ("database", "gallery", "index", "base"),
    UNLABELLED: ("unlabelled", "unlabeled", "_unlabelled", "_unlabeled"),
}
_PART_OF_WORD = {word: part for part, words in _SPELLINGS.items() for word in words}
COLUMN = "split"
# Columns that hold a split only if every word in them is a known one: their names are used for other things too.
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


def part_of_file(name: str) -> str | None:
    """The part that a file's name tells ("train-00000-of-00005.parquet", "flowers_test2.parquet"), or None."""
    return part_of_name(name.rpartition(".")[0])


def part_of_name(name: str) -> str | None:
    """The part that a word of a longer name tells ("train images", "TestSet", "shop_val"), or None."""
    words = re.split(r"[^a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", name).lower())
    words = [word if is_part(word) else re.sub("(set|data)$", "", word) for word in words]
    parts = list(dict.fromkeys(part_name(word) for word in words if is_part(word)))
    if len(parts) > 1:  # "base-train": index and base are also names of other things
        parts = [part for part in parts if part != DATABASE]
    return parts[0] if parts else None


def parts_of_files(names: list[str]) -> list[str] | None:
    """The part that each of several files' names tells; None if they tell none.

    What all names have in common tells nothing. Beside files that are clearly parts, another file's part is the first
    word that not all names have: a setting must explain it.
    """
    pieces = [[piece for piece in re.split(r"[-_. ]+", name.rpartition(".")[0]) if piece] for name in names]
    shared = set.intersection(*map(set, pieces)) if len(names) > 1 else set()
    own = [[piece for piece in found if piece not in shared] for found in pieces]
    parts = [part_of_name(" ".join(piece)) or part_of_file(name) for piece, name in zip(own, names, strict=True)]
    if None in parts and not {TRAIN, VAL, TEST} & set(parts):
        return None
    words = [(piece or found or [name])[0] for piece, found, name in zip(own, pieces, names, strict=True)]
    return [part or word for part, word in zip(parts, words, strict=True)]
