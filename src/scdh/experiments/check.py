"""``scdh check``: anything that scdh wrote → its parts, each read in full: whole, or what is wrong and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from scdh.codes import Codes
from scdh.data.name_files import index_names_file, is_missing_names, read_names_file
from scdh.data.row_names import RowNames
from scdh.errors import DataError, ScdhError
from scdh.experiments.compare.results import RESULTS_FILE
from scdh.experiments.info.models import is_model, is_run, read_json
from scdh.index import HammingIndex
from scdh.model.description import read_description
from scdh.model.hub import WEIGHTS
from scdh.printable import counted
from scdh.runs.choices import Choices
from scdh.runs.features import check_shard
from scdh.runs.folder import RunFolder
from scdh.storage.files import open_regular
from scdh.storage.json_files import read_entries


@dataclass(frozen=True)
class Finding:
    """One part that was read."""

    part: str
    kind: str
    contents: str = ""
    problem: str = ""
    remedy: str = ""

    def line(self) -> str:
        if self.problem:
            return f"DAMAGED  {self.kind}: {self.problem} {self.remedy}".rstrip()
        return f"whole    {self.kind}: {self.part}{f' ({self.contents})' if self.contents else ''}"

    def to_dict(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value}


def find(part: Path, kind: str, read: Callable[[], str], remedy: str) -> Finding:
    """Read a part; an error in reading is the problem that is reported."""
    try:
        return Finding(str(part), kind, contents=read())
    except ScdhError as error:
        return Finding(str(part), kind, problem=str(error), remedy=remedy)
    except OSError as error:
        return Finding(str(part), kind, problem=f"{part} cannot be read: {error.strerror}.", remedy=remedy)


def check_codes(path: Path, models: set[str] | None = None) -> Finding:
    """Read a codes file; ``models`` are the fingerprints of the models that may have made it, None for any."""

    def read() -> str:
        codes = Codes.load(path)
        if models is not None and codes.metadata.get("model") not in models:
            raise DataError(f"{str(path)!r} was made by a model that is not in this run.")
        names = RowNames.load(path, codes.ids, len(codes))
        return f"{len(codes):,} codes of {codes.bits} bits, {'with' if names else 'without'} names"

    return find(path, "codes", read, "`scdh encode … --replace` writes it again.")


def check_index(path: Path) -> Finding:
    def read() -> str:
        index = HammingIndex.load(path, verify=True)
        if is_missing_names(path, index.metadata):
            file = index_names_file(path, index.metadata)
            raise DataError(f"{str(path)!r} was written with names, but their file {file.name} is gone.")
        names = RowNames.load(path, index.ids, len(index), may_have_more=True)
        return f"{len(index):,} codes of {index.bits} bits, {'with' if names else 'without'} names"

    return find(path, "index", read, "`scdh index … --replace` writes it again from its codes.")


def check_model(folder: Path, check_info: Callable[[dict[str, Any]], None] | None = None) -> Finding:
    """Load a model; ``check_info`` raises an error if its ``info`` is wrong."""

    def read() -> str:
        from scdh.model.hasher import Hasher

        model = Hasher.load(folder, device="cpu")
        if check_info is not None:
            check_info(model.info)
        return f"{model.method.about.title}, {model.bits} bits, fingerprint {model.fingerprint()}"

    return find(folder, "model", read, "Train it again, or copy it again from where it came.")


def check_json(path: Path, kind: str, remedy: str) -> Finding:
    def read() -> str:
        content = read_json(path)
        return f"{len(content)} entries" if isinstance(content, dict | list) else ""

    return find(path, kind, read, remedy)


def is_cache(folder: Path) -> bool:
    """Whether a folder keeps features of a frozen trunk."""
    return any(path.is_file() for pattern in ("*.safetensors", "*/*.safetensors") for path in folder.glob(pattern))


def check_cache(folder: Path) -> Iterator[Finding]:
    """A finding for each damaged shard, and one for all that are whole."""
    shards = sorted(path for path in folder.rglob("*.safetensors") if path.is_file())
    remedy = "Delete it; it is computed again."
    findings = [find(shard, "kept features", partial(check_shard, shard), remedy) for shard in shards]
    whole = [finding for finding in findings if not finding.problem]
    if whole:
        yield Finding(str(folder), "kept features", contents=f"{len(whole):,} files")
    yield from (finding for finding in findings if finding.problem)


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
    if choices is not None and run.config_file.exists():
        chosen, config = choices.final(), run.config()
        if (chosen.seed, chosen.method.name, chosen.method.bits) != (
            config.seed,
            config.method.name,
            config.method.bits,
        ):
            raise DataError(f"{str(run.choices_file)!r} belongs to another run than {str(run.config_file)!r}.")
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


KINDS = "a run, a model, codes, an index, a comparison or a folder of kept features"


def check_anything(name: str) -> list[Finding]:
    """Findings about every part of the run, model or file ``name``.

    Raises:
        DataError: if it has no checksums.
    """
    path = Path(name).expanduser()
    if not path.exists():
        raise DataError(f"There is nothing at {name!r} to check.")
    findings = list(_folder(path) if path.is_dir() else _file(path))
    if not findings:
        raise DataError(f"{name!r} is not {KINDS}; `scdh info` and `scdh datasets` describe data.")
    return findings


def _folder(path: Path) -> Iterator[Finding]:
    if is_model(path):
        yield check_model(path)
    elif is_run(path):
        yield from check_run(path)
    elif (path / RESULTS_FILE).is_file() or (path / "cells").is_dir():
        if (path / RESULTS_FILE).is_file():
            yield check_json(path / RESULTS_FILE, "results of a comparison", "The same `scdh compare` writes it again.")
        for cell in sorted(path.glob("cells/*")) + sorted(path.glob("tuning/cells/*")):
            if cell.is_dir() and is_run(cell):
                yield from check_run(cell)
        if (path / "features").is_dir():
            yield from check_cache(path / "features")
    elif is_cache(path):
        yield from check_cache(path)


def _file(path: Path) -> Iterator[Finding]:
    try:
        with open(path, "rb", opener=open_regular) as handle:
            start = handle.read(1 << 12)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    if start.startswith(b"scdh-index") or path.suffix == ".index":
        yield check_index(path)
    elif path.name == WEIGHTS:
        yield check_model(path.parent)
    elif b'"scdh-codes"' in start or path.suffix == ".codes":
        yield check_codes(path)
    elif path.name == RESULTS_FILE:
        yield from _folder(path.parent)
    elif path.suffix == ".json" and is_run(path.parent):
        yield from check_run(path.parent)
