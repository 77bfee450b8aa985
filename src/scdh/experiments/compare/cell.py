"""One cell of a comparison: trained (or fitted), and later scored, in a run folder of its own, which can be resumed."""

import csv
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from scdh.data.source import Source
from scdh.errors import ConfigError, DataError, TrainingError
from scdh.experiments.compare.grid import Cell, Known
from scdh.experiments.compare.results import CellResult, FloatRow
from scdh.experiments.compare.summary import average
from scdh.methods.registry import method_class
from scdh.model.description import read_description
from scdh.model.hasher import Hasher
from scdh.runs.floats import score_floats, why_no_floats
from scdh.runs.folder import NetworkName, RunFolder
from scdh.runs.scoring import ScoreOptions, score_run
from scdh.runs.source_features import SourceFeatures
from scdh.storage.files import locked
from scdh.storage.json_files import read_entries, write_table
from scdh.training.plan import settled_plan
from scdh.training.run import run_plan


@contextmanager
def warnings_named(name: str) -> Iterator[None]:
    """Put ``name: `` before the text of every warning that is shown in the ``with`` block.

    A warning is shown once for each block, also if an earlier block has shown the same text.
    """
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_named(message: Warning | str, category: type[Warning], *more: Any, **options: Any) -> None:
            show(f"{name}: {message}", category, *more, **options)

        warnings.showwarning = show_named
        yield


REPORTED = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "precision_at_k", "l_q")


class CellRunner:
    """Runs cells on one source, with features shared by all of them.

    Args:
        source: the data of the comparison.
        folder: cells go into ``folder/cells/<name>``.
        topk: items that count for MAP; None takes the usual number for this data (mostly all).
        cache: folder for the features of a frozen network; None takes ``folder/features``.
        known: splits that the grid has computed.
        label_column: for data with several label columns, the one that decides what is relevant; None: all labels.
    """

    def __init__(
        self,
        source: Source,
        folder: Path,
        topk: int | None = None,
        cache: Path | None = None,
        known: Known | None = None,
        label_column: str | None = None,
    ) -> None:
        self.source = source
        self.folder = folder
        self.known = known or Known()
        self.options = ScoreOptions("usual" if topk is None else topk, label_column=label_column)
        self.features = SourceFeatures(source, cache or folder / "features", holds_all=True)
        self._models: dict[tuple[Path, NetworkName | None], Hasher] = {}

    def run_of(self, cell: Cell) -> RunFolder:
        """The run folder of a cell."""
        return RunFolder(self.folder / "cells" / cell.name)

    def model(self, run: RunFolder, network: NetworkName | None = None) -> Hasher:
        """A network of a finished run; the one that was read last stays in memory."""
        key = (run.path, network)
        if key not in self._models:
            self._models = {key: run.load_model(network)}
        return self._models[key]

    def is_trained(self, cell: Cell) -> bool:
        """Whether nothing is left to train: the cell has a model, or it failed."""
        run = self.run_of(cell)
        return run.is_finished or run.failure.exists()

    def is_scored(self, cell: Cell) -> bool:
        """Whether nothing is left to do: the cell failed, or has the requested scores.

        Also checks their definition: another --topk, or `scdh evaluate`, may have left other scores.
        """
        run = self.run_of(cell)
        if run.failure.exists():
            return True
        for network in _networks(run):
            file = run.scores(network=network)
            if not file.exists():
                return False
            definition = run.saved_scores(network=network)["definition"]
            if not self.options.agree_with(definition, self.source.name):
                return False
        return True

    def train(self, cell: Cell, *, wait: bool = False) -> bool:
        """Train what is left of a cell; no query is looked at.

        Returns:
            False if another process is training the cell.

        Raises:
            TrainingError: if the folder holds a run with other settings. A run that diverges is recorded instead.
        """
        with self._claimed(cell, wait) as run:
            if run is not None and not self.is_trained(cell):
                try:
                    self._train(cell, run)
                except TrainingError as error:  # one method that diverges must not stop the others
                    write_table(run.failure, {"sentence": str(error)})
        return run is not None

    def score(self, cell: Cell) -> bool:
        """Score the networks of a trained cell on queries, unless that is done; False if another process does it."""
        with self._claimed(cell, wait=False) as run:
            if run is not None and not self.is_scored(cell):
                for network in reversed(_networks(run)):  # its model last: with its scores, the cell has all of them
                    score_run(
                        run,
                        "query",
                        self.options,
                        network=network,
                        source=self.source,
                        hasher=self.model(run, network),
                        hash_outputs=self.features.hash_outputs,
                    )
        return run is not None

    def validation_map(self, cell: Cell) -> float | None:
        """Validation MAP of the cell's model; None for a run that failed or was not scored."""
        run = self.run_of(cell)
        if run.failure.exists():
            return None
        if method_class(cell.method).learns_by_gradient:
            scores = [score for _, score in read_training_log(run)[1]]
            return max(scores[-1:] if cell.config.train.keep == "last" else scores, default=None)
        # A method that is fitted has no epochs that were validated.
        outputs = self.features.hash_outputs
        with self._claimed(cell, wait=True):
            if not run.scores("validation").exists():
                score_run(run, "validation", self.options, source=self.source, hash_outputs=outputs)
        return float(run.saved_scores("validation")["map"])

    @contextmanager
    def _claimed(self, cell: Cell, wait: bool) -> Iterator[RunFolder | None]:
        """Lock the folder of a cell for this process; None if another one has the lock."""
        run = self.run_of(cell)
        run.path.mkdir(parents=True, exist_ok=True)
        with locked(run.lock, wait=wait) as have_lock, warnings_named(cell.name):
            if not have_lock:
                yield None
                return
            run.claim(cell.config, resume=True)
            if run.protocol_file.exists():
                run.protocol(self.source)  # raises if the data have changed
            yield run

    def results(self, cell: Cell) -> list[CellResult]:
        """The results in the folder of a cell: one for each scored network; none if it is not done."""
        return read_results(self.run_of(cell), cell)

    def _train(self, cell: Cell, run: RunFolder) -> None:
        try:
            run_plan(
                settled_plan(cell.config, self.source, self.known.split(cell.config, self.source).protocol),
                run.path,
                resume=True,
                feature_cache=self.features.folder,
                shows_epochs=False,
                is_held=True,
            )
        except ConfigError as error:
            if method_class(cell.method).learns_by_gradient:
                raise
            raise TrainingError(str(error)) from None  # such as more bits than features: a failure of this cell only


def _networks(run: RunFolder) -> list[NetworkName | None]:
    """The networks of a finished run that are scored; None is its model."""
    more: list[tuple[NetworkName, bool]] = [("student", run.has_student), ("last", run.has_last)]
    return [None, *(network for network, is_there in more if is_there)]


def read_results(run: RunFolder, cell: Cell) -> list[CellResult]:
    """As :meth:`CellRunner.results`, of any run folder."""
    method = method_class(cell.method)
    known: dict[str, Any] = {"method": cell.method, "bits": cell.bits, "seed": cell.seed, "cell": cell.name}
    if run.failure.exists():
        failed = run.failed_sentence()
        return [CellResult(**known, title=method.about.title, student=False, failed=failed)]
    if not run.is_finished:
        return []
    description = read_description(run.model)
    if method.learns_by_gradient:
        known |= {"epochs": cell.config.train.epochs, **_training_facts(description["info"])}
    if description["bits"] != cell.bits:
        known["code_bits"] = description["bits"]
    results = []
    networks: tuple[NetworkName | None, ...] = (None, "student")
    for network in networks:
        is_student = network == "student"
        if run.scores(network=network).exists():
            title = f"{method.about.title} (student)" if is_student else method.about.title
            content = run.saved_scores(network=network)
            scores = {key: content[key] for key in (*REPORTED, "definition", "protocol") if key in content}
            scores |= dict(zip(("seconds", "validation"), read_training_log(run, student=is_student), strict=True))
            if not is_student and method.learns_by_gradient:  # the student of the last epoch is not kept
                scores["map_last"] = _last_map(run, scores["map"])
            results.append(CellResult(**known, **scores, title=title, student=is_student))
    return results


def _training_facts(info: dict[str, Any]) -> dict[str, Any]:
    """The epoch whose model was taken, and how many weights learned: all of them, and beyond the plain network.

    The last number is below 0 if a method has fewer, such as a classifier with fewer classes than bits.
    """
    learned = info["learned_weights"]
    return {
        "best_epoch": info.get("best_epoch"),
        "learned_weights": learned["all"],
        "own_weights": learned["all"] - learned["plain"],
    }


def _last_map(run: RunFolder, score: float) -> float | None:
    """MAP of queries with the last epoch's model; None if it was not kept."""
    if run.has_last:
        file_is_there = run.scores(network="last").exists()
        return float(run.saved_scores(network="last")["map"]) if file_is_there else None
    info = run.model_info()
    return score if info.get("best_epoch") in (None, info.get("epochs")) else None


def read_training_log(run: RunFolder, *, student: bool = False) -> tuple[float, list[tuple[float, float]]]:
    """Seconds of training without scoring, and (seconds so far, validation MAP) after each validated epoch."""
    if not run.log.exists():  # a method that is fitted has no epochs
        return float(run.model_info()["seconds"]), []
    column = "validation_map_student" if student else "validation_map"
    seconds, curve = 0.0, []
    try:
        with open(run.log, newline="", encoding="utf-8") as handle:
            for row in csv.DictReader(handle):
                seconds += float(row["seconds"])
                score = float(row.get(column) or math.nan)
                if not math.isnan(score):
                    curve.append((round(seconds, 4), score))
    except (ValueError, KeyError, TypeError, csv.Error):
        raise DataError(f"{str(run.log)!r} is not the log of a run or is damaged; restore it from a copy.") from None
    return seconds, curve


def float_row(cells: Sequence[Cell], runner: CellRunner) -> FloatRow | None:
    """Means over the seeds; None if no run has vectors to rank, for example because the networks were tuned.

    Scores are kept in ``floats/<seed>.json`` of the comparison: they are the same for every method and length.
    """
    by_seed: dict[int, dict[str, Any]] = {}
    for cell in cells:
        if cell.seed not in by_seed and (scores := float_scores(cell, runner)) is not None:
            by_seed[cell.seed] = scores
    if not by_seed:
        return None
    every = list(by_seed.values())
    mean, deviation = average(scores["map"] for scores in every)
    assert mean is not None  # every seed has a MAP
    first_10, _ = average(scores["precision_at_k"].get("10") for scores in every)
    sizes = {"width": every[0]["width"], "bytes": every[0]["bytes"]}
    return FloatRow(**sizes, map=mean, map_std=deviation, precision_at_10=first_10, seeds=list(by_seed))


def float_scores(cell: Cell, runner: CellRunner) -> dict[str, Any] | None:
    """Scores of the vectors behind a run: those stored for its seed, otherwise they are computed and stored."""
    run = runner.run_of(cell)
    if not run.is_finished:
        return None
    protocol = run.protocol(runner.source)
    file = runner.folder / "floats" / f"{cell.seed}.json"
    if file.exists():
        remedy = "delete it, and they are computed again"
        content = read_entries(file, "the scores of the floats", remedy, "protocol", "floats")
        is_same = content["protocol"] == protocol.fingerprint
        if is_same and runner.options.agree_with(content["floats"]["definition"], runner.source.name):
            return dict(content["floats"])
    hasher = runner.model(run)
    if why_no_floats(hasher, len(protocol.database)) is not None:
        return None
    of_rows = partial(runner.features.of_rows, hasher)
    scores = score_floats(runner.source, protocol.query, protocol.database, of_rows, runner.options).to_dict()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_table(file, {"protocol": protocol.fingerprint, "floats": scores})
    return scores
