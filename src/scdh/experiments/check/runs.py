"""Checks of all files of a run."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shlex import quote

from scdh.data.protocol import Protocol
from scdh.experiments.check.finding import Finding, find
from scdh.experiments.check.parts import check_cache, check_codes, check_json, check_model
from scdh.runs.choices import Choices, counted_trials
from scdh.runs.folder import RunFolder

_EVALUATE = "`scdh evaluate` makes it anew."


def check_run(folder: Path) -> Iterator[Finding]:
    """A finding for each part that the run has."""
    run = RunFolder(folder)
    resume = f"`scdh train --resume --out {quote(str(folder))}`"
    again = f"Train again into another folder, or go on from the checkpoint with {resume}."
    if run.config_file.exists():
        yield find(run.config_file, "settings", lambda: run.config().method.name, "Train again into another folder.")
    if run.choices_file.exists():
        yield find(run.choices_file, "choices", lambda: _choices(run), "Delete it; the run does not need it any more.")
    if run.protocol_file.exists():
        yield find(run.protocol_file, "split", lambda: _split(run), "Train again into another folder.")
    for model in (run.model, run.student, run.best, run.last):
        if model.is_dir():
            yield _with_remedy(check_model(model), again)
    if run.int8.is_dir():
        yield _with_remedy(check_model(run.int8), "Make it anew with `scdh quantise … --replace`.")
    if run.checkpoint.exists():
        yield find(run.checkpoint, "checkpoint", lambda: _checkpoint(run), "Delete it, if the run is finished.")
    for codes in sorted(folder.glob("codes/*.codes")):
        yield _with_remedy(check_codes(codes), _EVALUATE)
    for scores in sorted(folder.glob("scores*.json")):
        yield check_json(scores, "scores", _EVALUATE)
    if run.features.is_dir():
        yield from check_cache(run.features)


def _with_remedy(finding: Finding, remedy: str) -> Finding:
    return replace(finding, remedy=remedy) if finding.problem else finding


def _choices(run: RunFolder) -> str:
    choices = Choices.load(run.choices_file)
    return "" if choices is None else counted_trials(len(choices.trials))


def _split(run: RunFolder) -> str:
    return f"{len(Protocol.load(run.protocol_file).train):,} training rows"


def _checkpoint(run: RunFolder) -> str:
    from scdh.training.checkpoint import check_checkpoint

    return f"after epoch {check_checkpoint(run.checkpoint)}"
