"""Checks of single files and folders: codes, indexes, models, kept features, JSON."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from scdh.codes import Codes
from scdh.data.name_files import index_names_file, is_missing_names
from scdh.data.row_names import RowNames
from scdh.errors import DataError
from scdh.experiments.check.finding import Finding, find
from scdh.experiments.info.described import read_json
from scdh.index import HammingIndex
from scdh.runs.features import check_shard


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
