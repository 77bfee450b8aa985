"""Score a run folder: codes of its queries and database (kept for reuse), scores, and everything they rest on."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scdh.codes import Codes
from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.sidecar import Items
from scdh.data.source import Source
from scdh.errors import CodesError, DataError
from scdh.evaluation import Scores, evaluate
from scdh.experiments.runs import Taught, encode_part, has_student, load_model, run_config, run_protocol
from scdh.files import replacing
from scdh.training.split import source_of
from scdh.versions import versions

USUAL_TOPK = {"nuswide21": 5000}
AT = (1, 10, 100, 500, 1000)


Encode = Callable[..., tuple[Codes, Items]]


def score_run(
    folder: Path,
    part: str,
    topk: int | None,
    topk_given: bool,
    options: dict[str, Any],
    on_bad_image: Any,
    taught: Taught | None = None,
    *,
    encode: Encode = encode_part,
    source: Source | None = None,
) -> tuple[dict[str, Any], Scores]:
    """Encode what a run asks with and searches, and score it; see :func:`score_codes`.

    ``encode`` gives codes and items of some rows (it may have kept features of them); ``source`` is the run's data,
    where it is open already.
    """
    config = run_config(folder)
    hasher = load_model(folder, taught)
    source = source_of(config) if source is None else source
    protocol = run_protocol(folder, source)
    if not topk_given:
        topk = USUAL_TOPK.get(config.data.source)
    own = part == "validation"
    asked = protocol.validation if own else protocol.query
    if not len(asked):
        setting = "data.validation_per_class" if own else "data.query_per_class (not data.split=all)"
        raise DataError(f"The run in {str(folder)!r} has no {part} rows to score; train one with {setting} for that.")
    loading: dict[str, Any] = {
        "batch_size": config.train.batch_size,
        "workers": config.train.workers,
        "on_bad_image": on_bad_image or config.data.on_bad_image,
    }
    stamp = {"model": hasher.fingerprint(), "protocol": protocol.fingerprint}
    started = time.perf_counter()
    codes: dict[str, Codes] = {}
    for name, rows in ((part, asked),) if own else ((part, asked), ("database", protocol.database)):
        file = folder / "codes" / f"{name}{_of_student(taught)}.codes"
        kept = _kept(file, stamp, len(rows))
        if kept is None:
            kept, items = encode(hasher, source, rows, title=f"encoding {name}", **loading)
            items.save(file)
            kept.save(file, {"protocol": protocol.fingerprint})
        codes[name] = kept
    extra = {
        "network": taught or ("teacher" if has_student(folder) else None),
        "l_q": float(codes[part].metadata["l_q"]),
        "left_out": len(asked) - len(codes[part]),
        "model": stamp["model"],
        "seconds": {"encoding": round(time.perf_counter() - started, 3)},
    }
    database = codes[part if own else "database"]
    return score_codes(folder, config, source, protocol, codes[part], database, part, topk, options, taught, extra)


def score_codes(
    folder: Path,
    config: RunConfig,
    source: Source,
    protocol: Protocol,
    queries: Codes,
    database: Codes,
    part: str = "query",
    topk: int | None = None,
    options: dict[str, Any] | None = None,
    taught: Taught | None = None,
    extra: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], Scores]:
    """Write scores and per-query scores of a run's codes into its ``folder``, with all they rest on; return them.

    The validation rows are scored among themselves, each left out of its own ranking: neither side was trained on.
    """
    started = time.perf_counter()
    scores = evaluate(
        queries,
        source.labels[queries.ids],
        database,
        source.labels[database.ids],
        topk=topk,
        leave_one_out=part == "validation",
        progress=sys.stderr.isatty(),
        **(options or {}),
    )
    ending = ("" if part == "query" else f"_{part}") + _of_student(taught)
    extra = extra or {}
    content = {
        "run": str(folder),
        "part": part,
        "file": f"scores{ending}.json",
        "per_query": f"per_query{ending}.npz",
        **summary(scores),
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "source": {"name": source.name, "fingerprint": protocol.source_fingerprint},
        "config": config.model_dump(mode="json"),
        "versions": versions(),
        **extra,
        "seconds": {**extra.get("seconds", {}), "scoring": round(time.perf_counter() - started, 3)},
    }
    with replacing(folder / content["per_query"]) as temporary, open(temporary, "wb") as handle:
        arrays: dict[str, Any] = {"rows": queries.ids, **scores.per_query}
        np.savez(handle, **arrays)
    with replacing(folder / content["file"]) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")
    return content, scores


def _of_student(taught: Taught | None) -> str:
    return "_student" if taught == "student" else ""


def summary(scores: Scores) -> dict[str, Any]:
    """Scores with their definition and precision at some k, ready for JSON."""
    ks = [k for k in AT if k <= scores.definition["database"]]
    curve = {str(k): float(p) for k, p in zip(ks, scores.precision_at_k(ks), strict=True)}
    return {**scores.to_dict(), "precision_at_k": curve}


def _kept(file: Path, stamp: dict[str, str], count: int) -> Codes | None:
    """Codes of an earlier evaluation, if the same model made them of the same split; with no image left out."""
    try:
        codes = Codes.load(file)
        named = Items.load(file, codes.ids, len(codes))
    except CodesError:
        return None
    same = all(codes.metadata.get(key) == value for key, value in stamp.items())
    return codes if same and named is not None and len(codes) == count and "l_q" in codes.metadata else None
