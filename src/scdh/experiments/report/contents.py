"""The contents of a run's page: its codes and scores, computed or read from its folder."""

import csv
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scdh.codes import HAMMING, Codes
from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.experiments.pages.label_texts import label_text
from scdh.experiments.report.confusions import FIRST
from scdh.index import HammingIndex
from scdh.index.ties import items_at, order_ties, tie_note
from scdh.model.hasher import Hasher
from scdh.runs.choices import Choices
from scdh.runs.encoding import encode_rows
from scdh.runs.folder import RunFolder
from scdh.runs.run_data import open_run_data
from scdh.runs.run_scores import RunScores
from scdh.runs.score_options import scored_labels
from scdh.runs.scoring import ScoreOptions, score_run
from scdh.runs.source_features import SourceFeatures

LEAST_VALIDATION = 2  # a single row has nothing to be ranked against


@dataclass(frozen=True, eq=False)
class Ranked:
    """Queries of a part of the split with their first hits.

    Args:
        scores: of this part.
        student: scores of the student's codes, of a run with a teacher.
        queries: their codes, with row numbers as ids.
        labels: int64 [q] or multi-hot [q, C].
        positions: int64 [q, k], the first hits as positions in the database, nearest first, ties by position.
        distances: [q, k].
        index: of the database by position.
        hash_outputs: row numbers of queries → their real outputs; None: there is no model to compute them by.
    """

    scores: RunScores
    student: RunScores | None
    queries: Codes
    labels: np.ndarray
    positions: np.ndarray
    distances: np.ndarray
    index: HammingIndex
    hash_outputs: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def leaves_one_out(self) -> bool:
        return self.scores.part == "validation"

    @property
    def is_by_bits(self) -> bool:
        """Whether Hamming distances rank; otherwise a distance of the method's own."""
        return self.index.ranking == HAMMING

    @property
    def tie_order(self) -> str:
        """The order of hits of :meth:`hits_of` at the same distance, in words."""
        return "the query's real outputs" if self.hash_outputs is not None and self.is_by_bits else "position"

    def hits_of(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions and distances of a query's first hits, ties by the query's real outputs where these are known."""
        positions, distances = self.positions[query], self.distances[query]
        if self.hash_outputs is None or not self.is_by_bits:
            return positions, distances
        own, code = np.array([query]), self.queries[query : query + 1]
        assert self.queries.ids is not None  # codes of a run carry row numbers
        weights = np.abs(self.hash_outputs(self.queries.ids[own])[0])
        k = len(positions)
        positions, distances = order_ties(self.index, code, weights, positions, distances, completes=True)
        others = positions != query if self.leaves_one_out else np.ones(len(positions), bool)
        return positions[others][:k], distances[others][:k]

    def tie_note(self, query: int) -> str:
        """What the list of a query's hits does not show; empty if it shows all, or distances are real numbers."""
        if not self.is_by_bits or not self.distances.shape[1]:
            return ""
        last = int(self.distances[query, -1])
        at_last = int(items_at(self.index, self.queries[query : query + 1], [last])[0])
        own = int(self.leaves_one_out and last == 0)
        return tie_note(last, int((self.distances[query] == last).sum()), at_last - own, self.tie_order)


@dataclass(frozen=True, eq=False)
class RunContents:
    """A run, its data, its database codes, and its ranked queries (None: it has none to score)."""

    run: RunFolder
    config: RunConfig
    source: Source
    protocol: Protocol
    title: str
    database: Codes
    database_labels: np.ndarray
    label_names: list[str]
    ranked: Ranked | None

    @property
    def database_rows(self) -> np.ndarray:
        assert self.database.ids is not None  # codes of a run carry row numbers
        return self.database.ids

    def label_text(self, labels: np.ndarray) -> str:
        """Names of the labels of one row: a number, or multi-hot [C]."""
        if labels.ndim == 0:
            return "" if labels < 0 else self.label_names[int(labels)]
        return label_text([self.label_names[n] for n in np.flatnonzero(labels)])


def read_contents(run: RunFolder, *, floats: bool = True, label_column: str | None = None, **data: Any) -> RunContents:
    """Score a run, or use the codes of an earlier scoring, and rank its queries.

    Args:
        run: a finished run; queries are scored, else validation rows, else only its codes are looked at.
        floats: also score the float vectors behind the codes.
        label_column: for data with several label columns, the one that decides what is relevant; None: all labels.
        data: ``data``, ``root`` and ``remaining`` of :func:`scdh.runs.run_data.open_run_data`.

    Raises:
        DataError: if it is not a run, or it failed.
    """
    config = run.config()
    if run.failure.exists():
        raise DataError(f"The run in {str(run)!r} failed, so there is nothing to report: {run.failed_sentence()}")
    opened = open_run_data(run, **data)
    source, protocol = opened.source, opened.protocol
    hasher = None if not run.is_finished and run.codes("database").exists() else run.load_model()
    labels, names = scored_labels(source, label_column)
    options = ScoreOptions(label_column=label_column)
    part = "query" if len(protocol.query) else "validation" if len(protocol.validation) >= LEAST_VALIDATION else None
    if source.pairs is not None and (part == "validation" or not source.labelled[protocol.query].any()):
        part = None
    if part is None:
        assert hasher is not None  # codes without a model are those of queries and database
        database = _database_codes(run, hasher, source, protocol)
        ranked = None
    else:
        scores = score_run(run, part, options, source=source, protocol=protocol, hasher=hasher, floats=floats)
        student = None
        if run.has_student:
            student = score_run(run, part, options, network="student", source=source, protocol=protocol)
        queries = Codes.load(run.codes(part))
        database = queries if part == "validation" else Codes.load(run.codes("database"))
        ranked = _rank(run, hasher, source, scores, student, queries, database, labels)
    title = config.method.name if hasher is None else hasher.method.about.title
    return RunContents(run, config, source, protocol, title, database, labels[database.ids], names, ranked)


def _database_codes(run: RunFolder, hasher: Hasher, source: Source, protocol: Protocol) -> Codes:
    train, features = hasher.config.train, SourceFeatures(source, run.feature_folder())
    return encode_rows(
        hasher,
        source,
        protocol.database,
        title="encoding database",
        batch_size=train.batch_size,
        workers=train.workers,
        on_bad_image=hasher.config.data.on_bad_image,
        hash_outputs=features.hash_outputs,
    )[0]


def _rank(
    run: RunFolder,
    hasher: Hasher | None,
    source: Source,
    scores: RunScores,
    student: RunScores | None,
    queries: Codes,
    database: Codes,
    labels: np.ndarray,
) -> Ranked:
    is_validation = scores.part == "validation"
    k = min(FIRST + is_validation, len(database))
    assert queries.ids is not None  # codes of a run carry row numbers
    index, tables = HammingIndex(database, ids=np.arange(len(database))), None

    def outputs_of(rows: np.ndarray) -> np.ndarray:
        assert hasher is not None
        features = SourceFeatures(source, run.feature_folder())
        batches = features.hash_outputs(
            hasher, source, rows, workers=0 if len(rows) == 1 else hasher.config.train.workers
        )
        return np.concatenate([u for _, u in batches])

    if hasher is not None and hasher.method.ranking != HAMMING:
        tables = hasher.distance_tables(outputs_of(queries.ids))
    hits = index.search(queries, k, byte_tables=tables)
    positions, distances = hits.ids, hits.distances
    if is_validation:
        positions, distances = _without_own(positions, distances)
    hash_outputs = None if hasher is None else outputs_of
    return Ranked(scores, student, queries, labels[queries.ids], positions, distances, index, hash_outputs)


def _without_own(positions: np.ndarray, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hits [q, k − 1] of queries that are the database: each without its own row, or without its last hit."""
    others = positions != np.arange(len(positions))[:, None]
    others[others.all(axis=1), -1] = False
    shape = len(positions), positions.shape[1] - 1
    return positions[others].reshape(shape), distances[others].reshape(shape)


def read_epochs(run: RunFolder) -> dict[str, list[float]]:
    """Columns of the log of epochs, NaN for empty cells; nothing for a method that is fitted."""
    if not run.log.exists():
        return {}
    columns: dict[str, list[float]] = {}
    with open(run.log, newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            for name, text in row.items():
                columns.setdefault(name, []).append(_number(text))
    return columns


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def read_choices(run: RunFolder) -> list[dict[str, str]]:
    """Settings that were chosen for the data: "setting", "value" and "reason" of each; empty if none are written."""
    choices = Choices.load(run.choices_file)
    return [] if choices is None else [{key: str(value) for key, value in asdict(c).items()} for c in choices.made]
