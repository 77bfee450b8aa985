"""Describe anything that a user may name. Needs no torch."""

from pathlib import Path

from scdh.data.name_files import owner_of_names
from scdh.errors import DataError, ScdhError
from scdh.experiments.info.file_kinds import (
    describe_begun_comparison,
    describe_codes,
    describe_comparison,
    describe_data,
    describe_index,
    describe_split,
)
from scdh.experiments.info.models import Described, describe_model, describe_run, is_model, is_run, read_json
from scdh.model.hub import DESCRIPTION, HUB, WEIGHTS, looks_like_hub_id
from scdh.runs.folder import RunFolder

COMPARISON = "compare.json"
COMPARISON_PARTS = ("rates/*.json", "cells/*/config.json", "tuning/cells/*/config.json")  # there before it is done
KINDS = "a run, a model, codes, an index, a comparison, a split or data"


def describe(name: str) -> Described:
    """Describe ``name``: a path, a named data set, or ``hf:owner/name`` on the hub.

    Raises:
        ScdhError: if it is unknown or damaged.
    """
    from scdh.data.named.benchmarks import DATASETS
    from scdh.index.engines import is_engine_address

    path = Path(name).expanduser()
    if name.startswith(HUB):
        return _on_hub(name)
    if name in DATASETS:
        return _data(name)
    if is_engine_address(name):
        return _engine(name)
    if path.is_dir():
        return _folder(path, name)
    if path.is_file():
        return _file(path, name)
    if looks_like_hub_id(name) and not path.suffix and not path.parent.is_dir():  # else it is a misspelt path
        raise DataError(f"There is nothing at {name!r}; a model or data set of the hub would be {HUB + name!r}.")
    return _data(name)


def _folder(path: Path, name: str) -> Described:
    if is_model(path):
        return describe_model(path, name)
    if is_run(path):
        return describe_run(path)
    if (path / COMPARISON).is_file():
        return describe_comparison(path / COMPARISON)
    if any(any(path.glob(pattern)) for pattern in COMPARISON_PARTS):
        return describe_begun_comparison(path)
    return _data(name)


def _file(path: Path, name: str) -> Described:
    with open(path, "rb") as handle:
        start = handle.read(1 << 12)
    if start.startswith(b"scdh-index"):
        return describe_index(path)
    if b'"scdh-items"' in start and (owner := owner_of_names(path)) is not None:
        return _file(owner, str(path))
    if path.name == WEIGHTS:
        return describe_model(path.parent, str(path.parent))
    if b'"scdh-codes"' in start or path.suffix == ".codes":
        return describe_codes(path)
    if path.suffix == ".json":
        return _json(path)
    run = RunFolder(path.parent)
    if path in (run.checkpoint, run.log, run.steps, run.per_query()) and is_run(run.path):
        return describe_run(run.path)
    return _data(name)


def _json(path: Path) -> Described:
    content = read_json(path)
    if isinstance(content, dict):
        if str(content.get("format", "")).startswith("scdh protocol"):
            return describe_split(path)
        if path.name == COMPARISON and "rows" in content:
            return describe_comparison(path)
        if path.name == DESCRIPTION and (is_model(path.parent) or is_run(path.parent)):
            return _folder(path.parent, str(path.parent))
        if path.name == RunFolder(path.parent).choices_file.name and is_run(path.parent):
            return describe_run(path.parent)
        if "run" in content and is_run(path.parent):  # scores
            return describe_run(path.parent)
    raise DataError(f"{path} is JSON, but nothing that scdh writes; expected {KINDS}.")


def _data(name: str) -> Described:
    from scdh.data.open import open_source

    try:
        source = open_source(name)
    except ScdhError as error:
        reason = f"; as data: {error}" if Path(name).exists() or name.startswith("hf:") else ", nor a file or folder."
        raise DataError(f"{name!r} is not {KINDS}{reason}") from None
    return describe_data(source, name)


def _engine(name: str) -> Described:
    from scdh.index.engines import engine_of

    with engine_of(name).open(name) as index:
        size = f"{len(index):,} codes of {index.bits} bits"
        described = Described("index", f"{index.shown}: {size}")
        described.add("items", len(index))
        described.add("bits", index.bits)
        described.add("model fingerprint", index.metadata.get("model"))
        described.suggest("search", "--index", index.shown, "--codes", "queries.codes")
    return described


def _on_hub(name: str) -> Described:
    """A model on the hub, or else a data set: both are called ``hf:owner/name``."""
    from huggingface_hub import hf_hub_download

    try:
        description = Path(hf_hub_download(name.removeprefix(HUB), DESCRIPTION))
    except Exception:  # the hub's client raises many kinds of errors; all mean that the model is not available
        return _data(name)
    return describe_model(description.parent, name)
