"""Read a source's own split: which rows train, validate, are queries and are searched.

:mod:`scdh.data.split_words` knows the usual words; settings name others. A row that is marked as a query is never used
otherwise, and a word that no setting explains is an error that asks for its meaning.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scdh.data.source import Source
from scdh.data.split_words import DATABASE, TEST, TRAIN, UNLABELLED, UNMARKED, VAL, is_part, named_words, word_key
from scdh.errors import ConfigError, DataError

MOST_WORDS = 12  # in a message
# Parts that may not share a word; training and validation rows may be searched too.
_APART = (("train", "query"), ("train", "validation"), ("query", "validation"), ("query", "database"))


@dataclass(frozen=True)
class PartSettings:
    """Which words mark which part, as the settings of a run say it: several words are joined by commas.

    ``train`` and ``query`` with their default may be missing in the data; any other name must be there.
    ``validation`` and ``database`` are the usual words where they are None.
    """

    train: str = TRAIN
    query: str = TEST
    validation: str | None = None
    database: str | None = None

    @property
    def are_named(self) -> bool:
        """Whether any word is named that is not the usual one."""
        return self != PartSettings()

    def words(self) -> dict[str, tuple[str, ...]]:
        """Words by part. A part without a name has its usual word, unless another part has that name."""
        words = {"train": named_words(self.train), "query": named_words(self.query)}
        for part, text in (("validation", self.validation), ("database", self.database)):
            if text is not None:
                words[part] = named_words(text)
        for part, found in words.items():
            if not found:
                raise ConfigError(f"data.{part} must name at least one word of the split.")
        for one, other in _APART:
            shared = set(words.get(one, ())) & set(words.get(other, ()))
            if shared:
                raise ConfigError(
                    f"The part {min(shared)!r} is named by data.{one} and by data.{other}, and a row cannot be both; "
                    "name another part for one of them."
                )
        taken = {word for found in words.values() for word in found}
        for part, usual in (("validation", VAL), ("database", DATABASE)):
            words.setdefault(part, () if usual in taken else (usual,))
        return words


@dataclass(frozen=True, eq=False)
class MarkedRows:
    """bool [n] for each part, all false where no row is marked so; made by :func:`read_marks`.

    Attributes:
        train, query, validation, database: rows marked by the words of the part.
        unlabelled: rows marked as having no label.
        unmarked: rows with an empty cell.
        unused: rows of a query or validation part that another part was named in place of; they are in no part.
    """

    train: np.ndarray
    query: np.ndarray
    validation: np.ndarray
    database: np.ndarray
    unlabelled: np.ndarray
    unmarked: np.ndarray
    unused: np.ndarray

    @property
    def searched(self) -> np.ndarray:
        """bool [n]: the database. Where no part is marked so, it is what is neither query nor validation."""
        if self.database.any():
            return self.database | self.unlabelled | self.unmarked
        return ~(self.query | self.validation | self.unused)


def read_marks(source: Source, settings: PartSettings) -> MarkedRows:
    """The rows of each part of the source's own split.

    Raises:
        ConfigError: a word is named for two parts that cannot share rows.
        DataError: the source has no split, a named part is missing, or a word has no known meaning.
    """
    words = settings.words()
    split = _split_of(source)
    spellings, numbers = np.unique(split, return_inverse=True)
    keys = [word_key(spelling) for spelling in spellings]
    for part, found in words.items():
        _check_parts_exist(source, settings, part, found, keys)
    known = {word for found in words.values() for word in found}
    unknown = [key for key in keys if not (key in known or is_part(key) or key == UNMARKED)]
    if unknown:
        raise DataError(_question(source, unknown, _first_missing(words, keys)))

    def rows(found: Sequence[str]) -> np.ndarray:
        return np.array([key in found for key in keys])[numbers.reshape(-1)]

    usual_words = (TEST, VAL)
    return MarkedRows(
        **{part: rows(found) for part, found in words.items()},
        unlabelled=rows([UNLABELLED] if UNLABELLED not in known else []),
        unmarked=rows([UNMARKED]),
        unused=rows([word for word in usual_words if word not in known]),
    )


def marked_queries(source: Source, settings: PartSettings) -> tuple[np.ndarray, np.ndarray]:
    """bool [n] twice, for a split that is not the data's own: rows marked as queries, and others that never train,
    as they have a usual word of queries and ``settings.query`` names another.

    Raises:
        DataError: the named part is missing.
    """
    words, is_named = settings.words()["query"], settings.query != PartSettings().query
    if source.split is None and not is_named:
        return np.zeros(len(source), bool), np.zeros(len(source), bool)
    spellings, numbers = np.unique(_split_of(source), return_inverse=True)
    keys = [word_key(spelling) for spelling in spellings]
    _check_parts_exist(source, settings, "query", words, keys)
    query, usual = (np.array([key in found for key in keys])[numbers.reshape(-1)] for found in (words, (TEST,)))
    return query, usual & ~query


def _split_of(source: Source) -> np.ndarray:
    if source.split is None:
        raise DataError(
            f"{source.name} does not come divided into parts, so data.split=given, data.train, data.query, "
            "data.validation and data.database have no meaning for it; leave them out."
        )
    return np.asarray(source.split, dtype=str)


def _check_parts_exist(
    source: Source, settings: PartSettings, part: str, words: Sequence[str], keys: Sequence[str]
) -> None:
    """Reject words that the settings name for a part and no row has; usual words may be missing."""
    given, usual = getattr(settings, part), getattr(PartSettings(), part)
    missing = [word for word in words if word not in keys]
    if missing and given is not None and given != usual:
        parts = list_parts(source)
        raise DataError(f"{source.name} has no part {missing[0]!r} (data.{part}); its parts are {parts}.")


def has_marks(source: Source) -> bool:
    """Whether the source's split says anything: rows that all train, or have no mark, may as well have no split."""
    if source.split is None:
        return False
    keys = {word_key(word) for word in np.unique(np.asarray(source.split, dtype=str))}
    return keys != {TRAIN} and not keys <= {UNMARKED, UNLABELLED}


def list_parts(source: Source) -> str:
    """The words of a source's split with their numbers of rows, for messages."""
    if source.split is None:
        return "none"
    words, counts = np.unique(np.asarray(source.split, dtype=str), return_counts=True)
    listed = [f"{word or 'an empty cell'} ({count:,} rows)" for word, count in zip(words, counts, strict=True)]
    more = f" and {len(listed) - MOST_WORDS} more" if len(listed) > MOST_WORDS else ""
    return ", ".join(listed[:MOST_WORDS]) + more


def _first_missing(words: dict[str, tuple[str, ...]], keys: Sequence[str]) -> str:
    """The part that an unknown word most likely is: the first that no known word marks."""
    return next((part for part in ("train", "query", "validation") if not set(words[part]) & set(keys)), "database")


def _question(source: Source, unknown: list[str], likely: str) -> str:
    number = f"{len(unknown)} of these have" if len(unknown) > 1 else f"{unknown[0]!r} has"
    others = ", ".join(f"data.{part}" for part in ("train", "query", "validation", "database") if part != likely)
    return (
        f"{source.name} is divided into {list_parts(source)}, and {number} no known meaning; say what it is, such as "
        f"--set data.{likely}={unknown[0]} (or {others}; several words joined by commas), or add --set data.split=draw "
        "to draw a new split."
    )
