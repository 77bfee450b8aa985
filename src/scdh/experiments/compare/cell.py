"""One cell of a comparison: trained (or fitted) and scored in a run folder of its own, which can be resumed."""

import csv
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.errors import ConfigError, TrainingError
from scdh.experiments.compare.features import SourceFeatures
from scdh.experiments.compare.grid import Cell
from scdh.experiments.compare.results import CellResult
from scdh.files import locked, replacing
from scdh.hasher import Hasher
from scdh.methods.registry import method_class
from scdh.runs.code_scores import score_codes
from scdh.runs.encoding import has_student, run_protocol
from scdh.runs.folder import claim_folder, keep_protocol
from scdh.runs.protocol import protocol_of
from scdh.runs.scoring import USUAL_TOPK, score_run
from scdh.training.run import train

FAILED, SCORES, STUDENT_SCORES = "failed.json", "scores.json", "scores_student.json"
OPTIONS = {"denominator": "hits", "radius": 2, "ties": "expected"}
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
        self.topk = USUAL_TOPK.get(source.name) if topk is None else topk
        self.features = SourceFeatures(source, cache or folder / "features")

    def folder_of(self, cell: Cell) -> Path:
        """The run folder of a cell."""
        return self.folder / "cells" / cell.name

    def is_done(self, cell: Cell) -> bool:
        """Whether nothing is left to do: the cell failed, or it is trained and has the scores that are wanted."""
        folder = self.folder_of(cell)
        if (folder / FAILED).exists():
            return True
        return self._has_scores(folder) if self.scored else (folder / "model").is_dir()

    def _has_scores(self, folder: Path) -> bool:
        """Also checks their definition: another --topk, or `scdh evaluate`, may have left other scores."""
        expected = {**OPTIONS, "topk": self.topk}
        for name in (SCORES, STUDENT_SCORES) if has_student(folder) else (SCORES,):
            if not (folder / name).exists():
                return False
            definition = json.loads((folder / name).read_text("utf-8"))["definition"]
            if any(definition[key] != value for key, value in expected.items()):
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
        folder = self.folder_of(cell)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".running", wait=wait) as have_lock:
            if not have_lock:
                return False
            claim_folder(folder, cell.config, resume=True, write=True)
            if (folder / "protocol.json").exists():
                run_protocol(folder, self.source)  # refuses data that changed since
            if not self.is_done(cell):
                try:
                    self._train_and_score(cell, folder)
                except TrainingError as error:  # one method that diverges must not stop the others
                    with replacing(folder / FAILED) as temporary:
                        temporary.write_text(json.dumps({"sentence": str(error)}), "utf-8")
        return True

    def results(self, cell: Cell) -> list[CellResult]:
        """What the folder of a cell holds: a result for each network that was scored; none if it is not done."""
        return read_results(self.folder_of(cell), cell)

    def _train_and_score(self, cell: Cell, folder: Path) -> None:
        if not method_class(cell.method).learns_by_gradient:
            self._fit(cell, folder)
            return
        if not (folder / "model").is_dir():  # training writes it last
            train(cell.config, folder, resume=True, feature_cache=self.features.cache, quiet=True, source=self.source)
        for checkpoint in ("last", "best"):  # the model is one of the two; three networks each would fill the disk
            shutil.rmtree(folder / checkpoint, ignore_errors=True)
        if not self.scored:
            return
        common: dict[str, Any] = {"encode": self.features.encode, "source": self.source}
        if has_student(folder):
            score_run(folder, "query", self.topk, True, OPTIONS, None, taught="student", **common)
        score_run(folder, "query", self.topk, True, OPTIONS, None, **common)

    def _fit(self, cell: Cell, folder: Path) -> None:
        """Fit a method to features of the untrained network, and score its codes."""
        config, source = cell.config, self.source
        protocol = protocol_of(config, source)
        keep_protocol(folder / "protocol.json", protocol, resume=True, write=True)
        width = source.features.shape[1] if source.kind == "features" else None
        torch.manual_seed(config.seed)  # a network without pretrained weights comes with random ones
        hasher, method = Hasher.build(config, source.label_names, source.multi_label, width)
        rows, features = self.features.of_rows(hasher, protocol.train)
        started = time.perf_counter()
        try:
            method.fit(features, source.labels[rows], cell.seed)
        except ConfigError as error:  # such as more bits than features: a failure of this cell only
            raise TrainingError(str(error)) from None
        seconds = time.perf_counter() - started
        codes: dict[str, Codes] = {}
        for name, part in (("query", protocol.query), ("database", protocol.database)):
            rows, features = self.features.of_rows(hasher, part)
            encoded, file = method.encode(features), folder / "codes" / f"{name}.codes"
            codes[name] = Codes(encoded.packed, encoded.bits, rows, {"protocol": protocol.fingerprint})
            RowNames.from_source(source, rows).save(file)
            codes[name].save(file)
        with replacing(folder / "log.csv") as temporary:
            temporary.write_text(f"epoch,seconds\n1,{seconds}\n", "utf-8")
        score_codes(
            folder, config, source, protocol, codes["query"], codes["database"], topk=self.topk, options=OPTIONS
        )


def read_results(folder: Path, cell: Cell) -> list[CellResult]:
    """As :meth:`CellRunner.results`, of any folder."""
    method = method_class(cell.method)
    known: dict[str, Any] = {"method": cell.method, "bits": cell.bits, "seed": cell.seed, "cell": cell.name}
    if (folder / FAILED).exists():
        message = json.loads((folder / FAILED).read_text("utf-8"))["sentence"]
        return [CellResult(**known, title=method.about.title, student=False, failed=message)]
    known["epochs"] = cell.config.train.epochs if method.learns_by_gradient else None
    results = []
    for name, student in ((SCORES, False), (STUDENT_SCORES, True)):
        if (folder / name).exists():
            title = f"{method.about.title} (student)" if student else method.about.title
            content = json.loads((folder / name).read_text("utf-8"))
            known |= {key: content[key] for key in (*REPORTED, "definition", "protocol") if key in content}
            known |= dict(zip(("seconds", "validation"), read_training_log(folder, student=student), strict=True))
            results.append(CellResult(**known, title=title, student=student))
    return results


def read_training_log(folder: Path, *, student: bool = False) -> tuple[float, list[tuple[float, float]]]:
    """Seconds of training without scoring, and (seconds so far, validation MAP) after each validated epoch."""
    column = "validation_map_student" if student else "validation_map"
    seconds, curve = 0.0, []
    with open(folder / "log.csv", newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            seconds += float(row["seconds"])
            score = float(row.get(column) or math.nan)
            if not math.isnan(score):
                curve.append((round(seconds, 4), score))
    return seconds, curve
