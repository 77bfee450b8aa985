"""Which data a run uses, and which of its rows train, are queries, and are searched."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scdh.config import DataSettings, RunConfig
from scdh.data.arrays.loose import IN_MEMORY
from scdh.data.draw import seeded
from scdh.data.hold_out import QUERY_MOST_OF_CLASS, hold_out
from scdh.data.marked_rows import PartSettings, has_marks, list_parts, marked_queries, read_marks
from scdh.data.named.benchmarks import DRAWN_FROM_ALL_ROWS
from scdh.data.open import open_source
from scdh.data.pairs import Pairs, read_pairs
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ConfigError, DataError
from scdh.label_arrays import rows_per_class, with_classes
from scdh.methods.registry import built_in_names, method_class

PAIR_SHARE, PAIR_MOST = 10, 1_000  # one row in 10 of those in pairs is held out, and no more than so many
PAIR_LEAST = 5  # pairs of each kind


def source_of(config: RunConfig) -> Source:
    """Open the data that ``config.data`` names."""
    data = config.data
    if IN_MEMORY in (data.source, data.pairs):
        raise DataError(
            "The data of this run were given in memory and cannot be opened again; train on a file or folder to "
            "evaluate, report or encode by name."
        )
    source = open_source(
        data.source,
        root=data.root,
        image_column=data.image_column,
        vector_column=data.vector_column,
        label_column=data.label_column,
        label_separator=data.label_separator,
        id_column=data.id_column,
        labels=data.labels,
        split_column=data.split_column,
    )
    if data.pairs is not None:
        source.pairs = read_pairs(data.pairs, source)
    return source


def protocol_of(config: RunConfig, source: Source) -> Protocol:
    """The split that ``config.data`` describes, with the labels that it lets training keep."""
    labels_per_class = config.data.labelled_per_class
    if source.pairs is not None:
        return _with_pairs(config, source, source.pairs)
    if not source.labelled.any():
        return _without_labels(config, source)
    plan = _given(config, source) if _takes_marks(config, source) else _drawn(config, source)
    protocol = plan.protocol(config, source)
    if labels_per_class is not None:
        protocol = protocol.keep_labels(source.labels, labels_per_class, seed=config.seed)
    if config.data.train_on_validation and len(protocol.validation):  # with their labels, next to the same rows
        protocol = protocol.without_validation()
    return protocol


@dataclass
class _SplitPlan:
    """The part of a split that the data and the settings define; the rest is drawn.

    Rows are bool [n]. ``query_per_class`` and ``validation_per_class`` are as for :func:`scdh.data.hold_out.hold_out`.
    """

    name: str
    candidates: np.ndarray  # train, unless they are held out
    searched: np.ndarray
    query: np.ndarray
    validation: np.ndarray
    query_per_class: int | None
    validation_per_class: int | None
    notes: list[str] = field(default_factory=list)

    def protocol(self, config: RunConfig, source: Source) -> Protocol:
        drawn = hold_out(
            order=seeded(config.seed).permutation(np.flatnonzero(self.candidates)),
            **_drawn_from(source, self.candidates),
            query_per_class=self.query_per_class,
            train_per_class=config.data.train_per_class,
            validation_per_class=self.validation_per_class,
        )
        if not len(drawn.train):
            raise DataError(_no_training_rows(source, self.query))
        if len(drawn.validation):
            share = (
                "a tenth of the rest, at most 50 per class" if self.validation_per_class is None else "drawn from train"
            )
            self.notes.append(f"validation: {share}")
        query = np.union1d(np.flatnonzero(self.query), drawn.query)
        database = np.setdiff1d(np.flatnonzero(self.searched), drawn.query)
        protocol = Protocol(
            name=self.name,
            seed=config.seed,
            train=drawn.train,
            query=query,
            database=database,
            validation=np.union1d(np.flatnonzero(self.validation), drawn.validation),
            source_fingerprint=source.fingerprint(),
            about="; ".join((*self.notes, *drawn.notes, *_note_on_lone_queries(source, query, database))),
        )
        return protocol.check(len(source))


def _drawn_from(source: Source, candidates: np.ndarray) -> dict[str, Any]:
    """The labels for drawing rows, without those that occur only in rows of other parts."""
    counts = rows_per_class(source.labels[candidates], source.num_classes)
    stays = (counts > 0) | (source.rows_per_class == 0)
    names = [name for name, is_kept in zip(source.label_names, stays, strict=True) if is_kept]
    return {"labels": with_classes(source.labels, stays), "label_names": names}


def _no_training_rows(source: Source, query: np.ndarray) -> str:
    if query.any() and not (source.labelled & ~query).any():
        return (
            f"{source.name} has no labelled rows left to train on: all are marked as queries, which never train (its "
            f"parts are {list_parts(source)})."
        )
    return (
        f"{source.name} has no labelled rows left to train on; its parts are {list_parts(source)}, and "
        "--set data.train=WORD names the one to train on."
    )


def _note_on_lone_queries(source: Source, query: np.ndarray, database: np.ndarray) -> list[str]:
    """A sentence about queries that have nothing to find, and score 0 whatever the codes are."""
    searched = rows_per_class(source.labels[database], source.num_classes) > 0
    labels = source.labels[query]
    finds = labels[:, searched].any(axis=1) if source.multi_label else searched[labels]
    count = int((~finds).sum())
    return [f"{count:,} queries have no label that a database row has, and score 0"] if count else []


def _part_settings(data: DataSettings) -> PartSettings:
    return PartSettings(data.train, data.query, data.validation, data.database)


def _takes_marks(config: RunConfig, source: Source) -> bool:
    """Whether the data's own split is used. It is also used if parts are named, because drawing would hide a wrong
    name.
    """
    if config.data.split != "auto":
        return config.data.split == "given"
    return _part_settings(config.data).are_named or has_marks(source)


def _given(config: RunConfig, source: Source) -> _SplitPlan:
    """Parts as they are marked; parts that are not marked are drawn from the training rows."""
    data, labelled = config.data, source.labelled
    marks, notes = read_marks(source, _part_settings(data)), [source.split_origin]
    trains, query = marks.train & labelled, marks.query & labelled
    query_per_class, validation_per_class = data.query_per_class, data.validation_per_class
    validation = marks.validation & labelled
    if not marks.train.any():
        trains = marks.searched & labelled & ~marks.unlabelled
        notes.append("no row is marked train, so the labelled database rows train")
    if query.any():
        notes += _unused_query_setting(data)
        query_per_class = 0
    else:
        why = "as those marked have no label" if marks.query.any() else "as none are marked"
        hint = "; --set data.query=val takes the validation part instead" if validation.any() else ""
        notes.append(f"queries: drawn from train by seed {config.seed}, {why}{hint}")
    if validation_per_class is None and validation.any():
        validation_per_class = 0
    else:
        if validation_per_class and data.validation is not None:
            raise ConfigError(
                "data.validation names the validation rows and data.validation_per_class draws them; set one of them."
            )
        if validation.any():
            notes.append(f"val left out, as data.validation_per_class={validation_per_class}")
        validation = np.zeros(len(source), bool)
    if not marks.database.any():
        notes.append("database: train and what is neither query nor validation")
    if marks.unmarked.any() and marks.train.any():
        notes.append(f"{int(marks.unmarked.sum()):,} rows with an empty mark are only searched")
    notes += _without_part(marks.query & ~labelled, "marked as queries have no label")
    notes += _without_part(marks.unused, "are of a part that is not used")
    return _SplitPlan(
        name=f"{source.name} as given",
        candidates=trains,
        searched=marks.searched,
        query=query,
        validation=validation,
        query_per_class=query_per_class,
        validation_per_class=validation_per_class,
        notes=notes,
    )


def _unused_query_setting(data: DataSettings) -> list[str]:
    """A note, not an error: presets of benchmarks whose queries are marked have the setting."""
    count = data.query_per_class
    return [] if count is None else [f"data.query_per_class={count} has no effect, as queries are marked"]


def _without_part(rows: np.ndarray, why: str) -> list[str]:
    return [f"{int(rows.sum()):,} rows {why} and are left out"] if rows.any() else []


def _drawn(config: RunConfig, source: Source) -> _SplitPlan:
    """Queries drawn from all rows, or none (``all``); if rows are marked as queries, these are the queries."""
    data, is_whole = config.data, config.data.split == "all"
    if is_whole and data.train_per_class is not None:
        raise ConfigError(
            f"data.train_per_class is for a drawn split, but {source.name} is divided as a whole; add data.split=draw "
            "or leave it out."
        )
    _check_no_named_parts(data)
    marked = unused = np.zeros(len(source), bool)
    if is_whole or not (data.source == source.name and source.name in DRAWN_FROM_ALL_ROWS):
        marked, unused = marked_queries(source, _part_settings(data))
    query, stays_out = marked & source.labelled, marked | unused
    query_per_class, validation_per_class = data.query_per_class, data.validation_per_class
    notes = [f"drawn by seed {config.seed}"]
    if source.split_note:
        notes.append(source.split_note)
    name = f"{source.name} {query_per_class or 'fitting'}/{data.train_per_class or 'all'} a class"
    if is_whole:
        name = f"{source.name} whole"
        notes[0] = "data.split=all: every labelled row trains"
        query_per_class = 0
        validation_per_class = validation_per_class or 0
    if query.any():
        name, query_per_class = f"{name}, queries as marked", 0
        notes.append("rows marked as queries are the queries and never train")
        notes += _unused_query_setting(data)
    elif query_per_class is None:
        notes.append(f"queries: a fifth of each class, at most {QUERY_MOST_OF_CLASS}")
    notes += _without_part(marked & ~query, "marked as queries have no label")
    notes += _without_part(unused, "are of a part that is not used")
    if not is_whole or query.any():
        notes.append("database: all but the queries")
    return _SplitPlan(
        name=name,
        candidates=source.labelled & ~stays_out,
        searched=~stays_out,
        query=query,
        validation=np.zeros(len(source), bool),
        query_per_class=query_per_class,
        validation_per_class=validation_per_class,
        notes=notes,
    )


def _check_no_named_parts(data: DataSettings) -> None:
    """A split that is drawn takes only the queries of the data's own split."""
    usual = PartSettings()
    for part in ("train", "validation", "database"):
        if getattr(data, part) != getattr(usual, part):
            raise ConfigError(
                f"data.{part} names rows of the data's own split, which data.split={data.split} does not follow; leave "
                "one of the two out."
            )


def _with_pairs(config: RunConfig, source: Source, pairs: Pairs) -> Protocol:
    """Rows in pairs train. Some are held out: their pairs are for validation. Labels choose queries and nothing else;
    without any, further rows are held out, whose pairs are scored in place of queries.
    """
    data, method = config.data, method_class(config.method.name)
    if not method.needs_labels:
        raise ConfigError(f"{method.about.title} learns without labels and cannot use pairs; leave the pairs out.")
    if data.train_on_validation or data.labelled_per_class is not None:
        raise ConfigError("data.train_on_validation and data.labelled_per_class need labels; leave them or pairs out.")
    marked, unused = marked_queries(source, _part_settings(data))
    query, searched = np.flatnonzero(marked), np.flatnonzero(~(marked | unused))
    if source.labelled.any():
        plan = _given(config, source) if _takes_marks(config, source) else _drawn(config, source)
        by_labels = plan.protocol(config, source)
        query, searched = by_labels.query, by_labels.database
    rows = seeded(config.seed).permutation(np.setdiff1d(pairs.rows, np.union1d(query, np.flatnonzero(unused))))
    held_out = min(len(rows) // PAIR_SHARE, PAIR_MOST)
    about = "pairs in place of labels, which are only for scoring"
    if not len(query):
        query, rows = rows[:held_out], rows[held_out:]
        searched, about = np.setdiff1d(searched, query), "pairs in place of labels; pairs of the query rows are scored"
    protocol = Protocol(
        name=f"{source.name} with pairs",
        seed=config.seed,
        train=rows[held_out:],
        query=query,
        database=searched,
        validation=rows[:held_out],
        source_fingerprint=source.fingerprint(),
        about=f"{about}; pairs: {len(pairs.among(rows[held_out:])):,} train, "
        f"{len(pairs.with_one_of(rows[:held_out], rows)):,} validate",
    ).check(len(source))
    kinds = pairs.among(protocol.train).similar, pairs.with_one_of(protocol.validation, rows).similar
    if any(min((kind > 0.5).sum(), (kind < 0.5).sum()) < PAIR_LEAST for kind in kinds):
        raise DataError(
            f"{source.name} has too few pairs to learn from and to judge by: {len(kinds[0])} train and {len(kinds[1])} "
            f"validate, and both need at least {PAIR_LEAST} similar and {PAIR_LEAST} dissimilar ones."
        )
    return protocol


def _without_labels(config: RunConfig, source: Source) -> Protocol:
    """All rows except marked queries train and are searched; without labels nothing can be scored."""
    method = config.method.name
    if method_class(method).needs_labels:
        others = [name for name in sorted(built_in_names()) if not method_class(name).needs_labels]
        raise DataError(
            f"{source.name} has no labels, and {method} learns from them; learn codes without labels with "
            f"--method {' or '.join(others)} (in Python method={others[0]!r}), or {source.label_advice}."
        )
    marked, unused = marked_queries(source, _part_settings(config.data))
    trains = searched = ~(marked | unused)
    if config.data.split in ("auto", "given") and _takes_marks(config, source):
        marks = read_marks(source, _part_settings(config.data))
        searched = marks.searched
        trains = marks.train if marks.train.any() else searched
    if not trains.any():
        raise DataError(f"{source.name} has no rows to train on; its parts are {list_parts(source)}.")
    none, resting = np.empty(0, np.int64), int((~trains).sum())
    return Protocol(
        name=f"{source.name} without labels",
        seed=config.seed,
        train=np.flatnonzero(trains),
        query=none,
        database=np.flatnonzero(searched),
        validation=none,
        source_fingerprint=source.fingerprint(),
        about="no row has a label, so there are no queries and no validation; "
        + (f"{resting:,} rows are marked as parts that do not train" if resting else "every row trains"),
    ).check(len(source))
