"""One cell of a comparison: trained (or fitted) and scored in a run folder of its own, which can be resumed."""

import csv
import math
from pathlib import Path
from typing import Any

from scdh.data.source import Source
from scdh.errors import ConfigError, DataError, TrainingError
from scdh.experiments.compare.grid import Cell
from scdh.experiments.compare.named_warnings import warnings_named
from scdh.experiments.compare.results import CellResult
from scdh.files import locked
from scdh.json_files import write_table
from scdh.methods.declared import declared
from scdh.runs.folder import NetworkName, RunFolder
from scdh.runs.scoring import ScoreOptions, score_run
from scdh.runs.source_features import SourceFeatures
from scdh.training.run import train

REPORTED = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "precision_at_k", "l_q")


class CellRunner:
    """Runs cells on one source, with features shared by all of them.

    Args:
        source: the data of the comparison.
        folder: cells go into ``folder/cells/<name>``.
        topk: items that count for MAP; None takes the usual number for this data (mostly all).
        cache: folder for the features of a frozen network; None takes ``folder/features``.
        scored: whether cells are scored on queries; False for tuning, which must not see them.
    """

    def __init__(
        self,
        source: Source,
        folder: Path,
        topk: int | None = None,
        cache: Path | None = None,
        *,
        scored: bool = True,
    ) -> None:
        self.source, self.folder, self.scored = source, folder, scored
        self.options = ScoreOptions("usual" if topk is None else topk)
        self.features = SourceFeatures(source, cache or folder / "features", holds_all=True)

    def run_of(self, cell: Cell) -> RunFolder:
        """The run folder of a cell."""
        return RunFolder(self.folder / "cells" / cell.name)

    def is_done(self, cell: Cell) -> bool:
        """Whether nothing is left to do: the cell failed, or it is trained and has the scores that are wanted."""
        run = self.run_of(cell)
        if run.failure.exists():
            return True
        return self._has_scores(run) if self.scored else run.is_finished

    def _has_scores(self, run: RunFolder) -> bool:
        """Also checks their definition: another --topk, or `scdh evaluate`, may have left other scores."""
        networks: tuple[NetworkName | None, ...] = (None, "student") if run.has_student else (None,)
        for network in networks:
            file = run.scores(network=network)
            if not file.exists():
                return False
            definition = run.saved_scores(network=network)["definition"]
            if not self.options.agree_with(definition, self.source.name):
                return False
        return True

    def run(self, cell: Cell, *, wait: bool = False) -> bool:
        """Do what is left of a cell.

        Args:
            cell: the cell to run; it is skipped if it is done.
            wait: if another process is running the cell, wait for it to end.

        Returns:
            False if another process is running the cell.

        Raises:
            TrainingError: if the folder holds a run with other settings. A run that diverges is recorded instead.
        """
        run = self.run_of(cell)
        run.path.mkdir(parents=True, exist_ok=True)
        with locked(run.lock, wait=wait) as have_lock:
            if not have_lock:
                return False
            run.claim(cell.config, resume=True)
            if run.protocol_file.exists():
                run.protocol(self.source)  # refuses data that changed since
            if not self.is_done(cell):
                try:
                    with warnings_named(cell.name):
                        self._train_and_score(cell, run)
                except TrainingError as error:  # one method that diverges must not stop the others
                    write_table(run.failure, {"sentence": str(error)})
        return True

    def results(self, cell: Cell) -> list[CellResult]:
        """What the folder of a cell holds: a result for each network that was scored; none if it is not done."""
        return read_results(self.run_of(cell), cell)

    def _train_and_score(self, cell: Cell, run: RunFolder) -> None:
        if not run.is_finished:
            self._train(cell, run)
        if not self.scored:
            return
        common: dict[str, Any] = {"source": self.source, "hash_outputs": self.features.hash_outputs}
        if run.has_student:
            score_run(run, "query", self.options, network="student", **common)
        score_run(run, "query", self.options, **common)

    def _train(self, cell: Cell, run: RunFolder) -> None:
        try:
            train(
                cell.config,
                run.path,
                resume=True,
                feature_cache=self.features.folder,
                quiet=True,
                source=self.source,
                keep_last=False,  # a second network of every cell would fill the disk
            )
        except ConfigError as error:
            if declared(cell.method).learns_by_gradient:
                raise
            raise TrainingError(str(error)) from None  # such as more bits than features: a failure of this cell only


def read_results(run: RunFolder, cell: Cell) -> list[CellResult]:
    """As :meth:`CellRunner.results`, of any run folder."""
    method = declared(cell.method)
    known: dict[str, Any] = {"method": cell.method, "bits": cell.bits, "seed": cell.seed, "cell": cell.name}
    if run.failure.exists():
        failed = run.failed_sentence()
        return [CellResult(**known, title=method.about.title, student=False, failed=failed)]
    known["epochs"] = cell.config.train.epochs if method.learns_by_gradient else None
    results = []
    networks: tuple[NetworkName | None, ...] = (None, "student")
    for network in networks:
        is_student = network == "student"
        if run.scores(network=network).exists():
            title = f"{method.about.title} (student)" if is_student else method.about.title
            content = run.saved_scores(network=network)
            code_bits = content["definition"].get("bits", cell.bits)
            if code_bits != cell.bits:  # a method whose codes have a length of their own
                title = f"{title} ({code_bits} bits)"
            scores = {key: content[key] for key in (*REPORTED, "definition", "protocol") if key in content}
            scores |= dict(zip(("seconds", "validation"), read_training_log(run, student=is_student), strict=True))
            results.append(CellResult(**known, **scores, title=title, student=is_student))
    return results


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
