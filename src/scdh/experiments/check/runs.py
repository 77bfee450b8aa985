"""Checks of all files of a run."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from scdh.data.name_files import read_names_file
from scdh.experiments.check.finding import Finding, find
from scdh.experiments.check.parts import check_cache, check_codes, check_model
from scdh.model.description import read_description
from scdh.printable import counted
from scdh.runs.choices import Choices
from scdh.runs.folder import RunFolder
from scdh.storage.json_files import read_entries

_EVALUATE = "`scdh evaluate` writes it again."


def check_run(folder: Path) -> Iterator[Finding]:
    """A finding for each part that the run has."""
    run = RunFolder(folder)
    resume = f"`scdh train --resume --out {quote(str(folder))}`"
    again = f"Train again into another folder, or go on from the checkpoint with {resume}."
    new_run = "Train again into another folder."
    if run.config_file.exists():
        yield find(run.config_file, "settings", lambda: run.config().method.name, new_run)
    if run.choices_file.exists():
        yield find(run.choices_file, "choices", lambda: _choices(run), "Delete it; the run no longer needs it.")
    if run.protocol_file.exists():
        yield find(run.protocol_file, "split", lambda: _split(run), new_run)
    if run.rows_file.exists():
        yield find(run.rows_file, "names of rows", lambda: _rows(run), "Delete it; it only serves messages.")
    fingerprints: set[str] | None = set() if run.is_finished else None  # None: not all are known
    for model in (run.model, run.student, run.best, run.last, run.int8):
        if model.is_dir():
            remedy = "`scdh quantise … --replace` writes it again." if model == run.int8 else again
            finding = check_model(model, partial(_check_owner, run, model))
            yield replace(finding, remedy=remedy) if finding.problem else finding
            if finding.problem:
                fingerprints = None
            elif fingerprints is not None:
                fingerprints.add(read_description(model)["fingerprint"])
    if run.checkpoint.exists():
        yield find(run.checkpoint, "checkpoint", lambda: _checkpoint(run), "Delete it, if the run is finished.")
    for codes in sorted(folder.glob("codes/*.codes")):
        finding = check_codes(codes, fingerprints)
        yield replace(finding, remedy=_EVALUATE) if finding.problem else finding
    for scores in sorted(folder.glob("scores*.json")):
        yield find(scores, "scores", partial(_scores, run, scores), _EVALUATE)
    if run.features.is_dir():
        yield from check_cache(run.features)


def _choices(run: RunFolder) -> str:
    choices = Choices.load(run.choices_file)
    return "" if choices is None else counted(len(choices.trials), "trial")


def _split(run: RunFolder) -> str:
    return f"{len(run.saved_protocol().train):,} training rows"


def _rows(run: RunFolder) -> str:
    names = read_names_file(run.rows_file)
    return "" if names is None else f"{len(names.ids):,} rows"


def _check_owner(run: RunFolder, model: Path, info: dict[str, Any]) -> None:
    run.check_part(model, str(info.get("run_id", "")))


def _checkpoint(run: RunFolder) -> str:
    from scdh.training.checkpoint import check_checkpoint

    epochs, run_id = check_checkpoint(run.checkpoint)
    run.check_part(run.checkpoint, run_id)
    return f"after epoch {epochs}"


def _scores(run: RunFolder, file: Path) -> str:
    content = read_entries(file, "the scores of a run", _EVALUATE, "definition")
    run.check_part(file, str(content.get("run_id", "")))
    return f"{len(content)} entries"
