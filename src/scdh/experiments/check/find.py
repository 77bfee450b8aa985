"""Anything that scdh wrote → its parts, each read in full."""

from collections.abc import Iterator
from pathlib import Path

from scdh.errors import DataError
from scdh.experiments.check.finding import Finding
from scdh.experiments.check.parts import check_cache, check_codes, check_index, check_json, check_model, is_cache
from scdh.experiments.check.runs import check_run
from scdh.experiments.compare.results import RESULTS_FILE
from scdh.experiments.info.models import is_model, is_run
from scdh.model.hub import WEIGHTS
from scdh.storage.files import open_regular

KINDS = "a run, a model, codes, an index, a comparison or a folder of kept features"


def check_anything(name: str) -> list[Finding]:
    """Findings about every part of what ``name`` is.

    Args:
        name: path of something that scdh wrote.

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
