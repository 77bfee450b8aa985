"""One cell of a comparison: trained (or fitted) and scored in a run folder of its own, which can be resumed."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import torch

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.errors import ConfigError, TrainingError
from scdh.experiments.compare.cell_results import FAILED, SCORES, STUDENT_SCORES
from scdh.experiments.compare.grid import Cell
from scdh.experiments.compare.kept_features import KeptFeatures
from scdh.files import locked, replacing
from scdh.hasher import Hasher
from scdh.methods.registry import method_class
from scdh.runs.code_scores import score_codes
from scdh.runs.encoding import has_student, run_protocol
from scdh.runs.folder import claim_folder, keep_protocol
from scdh.runs.protocol import protocol_of
from scdh.runs.scoring import USUAL_TOPK, score_run
from scdh.training.run import train

OPTIONS = {"denominator": "hits", "radius": 2, "ties": "expected"}


class Bench:
    """What all cells share: the data, the features of the network as it comes, and where the cells lie."""

    def __init__(
        self,
        source: Source,
        folder: Path,
        topk: int | None = None,
        cache: Path | None = None,
        *,
        scored: bool = True,
    ) -> None:
        """Without ``scored``, cells are trained and no query is asked: for tuning."""
        self.source, self.folder, self.scored = source, folder, scored
        self.topk = USUAL_TOPK.get(source.name) if topk is None else topk
        self.features = KeptFeatures(source, cache or folder / "features")

    def place(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.name

    def done(self, cell: Cell) -> bool:
        folder = self.place(cell)
        if (folder / FAILED).exists():
            return True
        return self._has_scores(folder) if self.scored else (folder / "model").is_dir()

    def _has_scores(self, folder: Path) -> bool:
        """Also whether they are the ones asked for: another --topk, or `scdh evaluate`, may have left others there."""
        wanted = {**OPTIONS, "topk": self.topk}
        for name in (SCORES, STUDENT_SCORES) if has_student(folder) else (SCORES,):
            if not (folder / name).exists():
                return False
            definition = json.loads((folder / name).read_text("utf-8"))["definition"]
            if any(definition[key] != value for key, value in wanted.items()):
                return False
        return True

    def run(self, cell: Cell, *, wait: bool = False) -> bool:
        """Do what is left of a cell; False where another process is at it, unless we ``wait`` for that."""
        folder = self.place(cell)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".running", wait=wait) as mine:
            if not mine:
                return False
            claim_folder(folder, cell.config, resume=True, write=True)  # refuses a folder of other settings
            if (folder / "protocol.json").exists():
                run_protocol(folder, self.source)  # refuses data that changed since
            if not self.done(cell):
                try:
                    self._learn_and_score(cell, folder)
                except TrainingError as error:  # a method that diverges must not take the others' results along
                    with replacing(folder / FAILED) as temporary:
                        temporary.write_text(json.dumps({"sentence": str(error)}), "utf-8")
        return True

    def _learn_and_score(self, cell: Cell, folder: Path) -> None:
        if not method_class(cell.method).learns_by_gradient:
            self._fit(cell, folder)
            return
        if not (folder / "model").is_dir():  # what training writes last
            train(cell.config, folder, resume=True, feature_cache=self.features.cache, quiet=True, source=self.source)
        for spare in ("last", "best"):  # the model is one of the two; a network each would fill the disk
            shutil.rmtree(folder / spare, ignore_errors=True)
        if not self.scored:
            return
        asked = (folder, "query", self.topk, True, OPTIONS, None)
        common: dict[str, Any] = {"encode": self.features.encode, "source": self.source}
        if has_student(folder):
            score_run(*asked, taught="student", **common)
        score_run(*asked, **common)

    def _fit(self, cell: Cell, folder: Path) -> None:
        """A method that learns from features at once, those of the network as it comes."""
        config, source = cell.config, self.source
        protocol = protocol_of(config, source)
        keep_protocol(folder / "protocol.json", protocol, resume=True, write=True)
        width = source.features.shape[1] if source.kind == "features" else None
        torch.manual_seed(config.seed)  # a network without pretrained weights comes with random ones
        hasher, method = Hasher.build(config, source.label_names, source.multi_label, width)
        rows, features = self.features.of(hasher, protocol.train)
        started = time.perf_counter()
        try:
            method.fit(features, source.labels[rows], cell.seed)
        except ConfigError as error:  # such as more bits than features: this cell's matter, not the others'
            raise TrainingError(str(error)) from None
        seconds = time.perf_counter() - started
        codes: dict[str, Codes] = {}
        for name, asked in (("query", protocol.query), ("database", protocol.database)):
            rows, features = self.features.of(hasher, asked)
            made, file = method.encode(features), folder / "codes" / f"{name}.codes"
            codes[name] = Codes(made.packed, made.bits, rows, {"protocol": protocol.fingerprint})
            RowNames.from_source(source, rows).save(file)
            codes[name].save(file)
        with replacing(folder / "log.csv") as temporary:
            temporary.write_text(f"epoch,seconds\n1,{seconds}\n", "utf-8")
        score_codes(
            folder, config, source, protocol, codes["query"], codes["database"], topk=self.topk, options=OPTIONS
        )
