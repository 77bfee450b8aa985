"""Checks of single files and folders: codes, indexes, models, kept features, JSON."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.experiments.check.finding import Finding, find
from scdh.experiments.info.described import read_json
from scdh.index import HammingIndex
from scdh.runs.features import check_shard


def check_codes(path: Path) -> Finding:
    def read() -> str:
        codes = Codes.load(path)
        names = RowNames.load(path, codes.ids, len(codes))
        return f"{len(codes):,} codes of {codes.bits} bits, {'with' if names else 'without'} names"

    return find(path, "codes", read, "Make it anew with `scdh encode … --replace`.")


def check_index(path: Path) -> Finding:
    def read() -> str:
        index = HammingIndex.load(path, verify=True)
        names = RowNames.load(path, index.ids, len(index), may_have_more=True)
        return f"{len(index):,} codes of {index.bits} bits, {'with' if names else 'without'} names"

    return find(path, "index", read, "Make it anew from its codes with `scdh index … --replace`.")


def check_model(folder: Path) -> Finding:
    def read() -> str:
        from scdh.hasher import Hasher

        model = Hasher.load(folder, device="cpu")
        return f"{model.method.about.title}, {model.bits} bits, fingerprint {model.fingerprint()}"

    return find(folder, "model", read, "Train it again, or copy it anew from where it came.")


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
