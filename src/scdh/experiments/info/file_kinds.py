"""Files of codes, indexes, splits and comparisons, and data."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scdh.codes import HAMMING, Codes
from scdh.data.name_files import load_named_codes, names_of_index
from scdh.data.protocol import Protocol
from scdh.data.row_names import RowNames
from scdh.errors import CodesError
from scdh.experiments.info.models import Described, counts_text, find_maker, read_json, some, takes_images
from scdh.index import HammingIndex
from scdh.runs.folder import RunFolder

if TYPE_CHECKING:
    from scdh.data.source import Source

SHOWN_ROWS = 12  # of a comparison's table


def describe_codes(path: Path) -> Described:
    """A file that `scdh encode` wrote."""
    codes = Codes.load(path)
    described = Described("codes", f"{path}: {len(codes):,} codes of {codes.bits} bits")
    described.add("items", len(codes))
    described.add("bits", codes.bits)
    described.add("bytes per item", int(codes.packed.shape[1]))
    described.add("bytes", path.stat().st_size)
    described.add("ranked by", codes.ranking)
    _add_maker(described, codes.metadata, path)
    _add_names(described, lambda: load_named_codes(path)[1])
    described.suggest("index", path, "--out", path.with_suffix(".index"))
    return described


def describe_index(path: Path) -> Described:
    """A file that `scdh index` wrote."""
    index = HammingIndex.load(path)
    described = Described("index", f"{path}: an index of {len(index):,} codes of {index.bits} bits")
    described.add("items", len(index))
    described.add("bits", index.bits)
    described.add("bytes", path.stat().st_size)
    described.add("ranked by", index.ranking)
    maker = _add_maker(described, index.metadata, path)
    _add_names(described, lambda: names_of_index(path, index))
    if len(index):
        model = [] if index.ranking == HAMMING else ["--model", maker or "RUN"]
        described.suggest("search", path, *model, "--row", int(index.ids[0]))
    if maker is not None:
        query = "IMAGE.jpg" if takes_images(maker) else "VECTORS.npy"
        described.suggest("search", path, "--model", maker, query, "--html", "hits.html")
    return described


def _add_maker(described: Described, metadata: dict[str, str], path: Path) -> Path | None:
    fingerprint = metadata.get("model")
    described.add("model fingerprint", fingerprint, fingerprint or "none is named")
    if fingerprint is None:
        return None
    maker = find_maker(fingerprint, path)
    described.add("made by", None if maker is None else str(maker))
    if maker is None:
        described.rows.append(("made by", "no run or model near this file has that fingerprint"))
    return maker


def _add_names(described: Described, read: Callable[[], RowNames | None]) -> None:
    try:
        names = read()
    except CodesError as error:
        described.add("names", False, str(error))
        return
    if names is None:
        described.add("names", False, "none")
        return
    described.add("names", True, f"such as {names.names[0]}" if len(names.names) else "no rows")
    described.add("labels", len(names.label_names), some(names.label_names))


def describe_split(path: Path) -> Described:
    """A protocol file: the split of a run."""
    protocol = Protocol.load(path)
    counts = {part: len(getattr(protocol, part)) for part in ("train", "validation", "query", "database")}
    counts["unlabelled"] = len(protocol.unlabelled)
    described = Described("split", f"{path}: the split {protocol.name!r}")
    described.add("made of", protocol.about or None)
    described.add("rows", counts, counts_text(counts))
    described.add("seed", protocol.seed)
    described.add("split fingerprint", protocol.fingerprint)
    described.add("data fingerprint", protocol.source_fingerprint)
    if (path.parent / "config.json").exists():
        described.suggest("info", path.parent)
    return described


def describe_begun_comparison(folder: Path) -> Described:
    """The folder of a comparison that was stopped, or still runs."""
    described = Described("comparison", f"{folder}: a comparison that is not finished; the same command continues it")
    finished = sorted(run.name for run in folder.glob("cells/*") if RunFolder(run).is_finished)
    rates = sorted(file.stem for file in folder.glob("rates/*.json"))
    described.add("finished runs", finished, some(finished))
    described.add("learning rates of", rates, some(rates))
    return described


def describe_comparison(path: Path) -> Described:
    """A ``compare.json``; fields that another version may lack are left out."""
    content = read_json(path)
    methods, data = content.get("methods", []), content.get("data", {})
    described = Described("comparison", f"{path.parent}: a comparison of {len(methods)} methods on {data.get('name')}")
    described.add("methods", methods, ", ".join(map(str, methods)))
    for name in ("bits", "seeds"):
        described.add(name, content.get(name), ", ".join(map(str, content.get(name, []))))
    counts = {part: data[part] for part in ("train", "validation", "query", "database", "unlabelled") if part in data}
    described.add("rows", counts or None, counts_text(counts))
    described.add("labels", data.get("labels"))
    rows = [row for row in content.get("rows", []) if row.get("map") is not None]
    described.facts["map"] = {f"{row.get('title')} {row.get('bits')}": row["map"] for row in rows}
    for row in rows[:SHOWN_ROWS]:
        described.rows.append((f"MAP of {row.get('title')}, {row.get('bits')} bits", f"{row['map']:.4f}"))
    if len(rows) > SHOWN_ROWS:
        described.rows.append(("", f"… and {len(rows) - SHOWN_ROWS} more rows; --json gives all"))
    failed, missing = content.get("failed", {}), content.get("missing", [])
    described.add("failed", sorted(failed) if failed else None)
    described.add("missing", missing or None)
    page = path.parent / "compare.html"
    described.add("page", str(page) if page.exists() else None)
    cells = sorted(folder for folder in (path.parent / "cells").glob("*") if folder.is_dir())
    if cells:
        described.suggest("info", cells[0])
        described.suggest("report", cells[0])
    return described


def describe_data(source: "Source", name: str) -> Described:
    """Images or embeddings."""
    import numpy as np

    kind = "embeddings" if source.kind == "features" else "images"
    described = Described("data", f"{name}: {len(source):,} {kind}")
    described.add("rows", len(source))
    described.add("items", kind)
    if source.kind == "features":
        described.add("width", int(source.features.shape[1]))
    described.add("with a label", int(source.labelled.sum()))
    described.add("labels", source.num_classes, some(source.label_names))
    described.add("several labels per row", source.multi_label)
    if source.split is not None:
        parts, sizes = np.unique(source.split.astype(str), return_counts=True)
        counts: dict[str, Any] = dict(zip(parts.tolist(), sizes.tolist(), strict=True))
        described.add("split", counts, counts_text(counts))
    described.add("data fingerprint", source.fingerprint())
    described.suggest("datasets", name)
    needs = () if source.labelled.any() else ("--method", "itq")  # the default learns from labels
    described.suggest("train", "--data", name, *needs, "--bits", 32)
    return described
