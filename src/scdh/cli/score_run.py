"""Score a run folder: codes of its queries and database (kept for reuse), scores, and everything they rest on."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from scdh.cli.evaluate import summary
from scdh.cli.runs import encode_part, load_model, run_config, run_protocol
from scdh.codes import Codes
from scdh.data.sidecar import Items
from scdh.errors import CodesError, DataError
from scdh.evaluation import Scores, evaluate
from scdh.files import replacing
from scdh.training.split import source_of
from scdh.versions import versions

USUAL_TOPK = {"nuswide21": 5000}


def score_run(
    folder: Path,
    part: str,
    topk: int | None,
    topk_given: bool,
    options: dict[str, Any],
    on_bad_image: Any,
) -> tuple[dict[str, Any], Scores]:
    """Write scores and per-query scores into ``folder``; return them.

    The validation rows are scored among themselves, each left out of its own ranking: neither side was trained on.
    """
    config = run_config(folder)
    hasher = load_model(folder)
    source = source_of(config)
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
        file = folder / "codes" / f"{name}.codes"
        kept = _kept(file, stamp, len(rows))
        if kept is None:
            kept, items = encode_part(hasher, source, rows, title=f"encoding {name}", **loading)
            items.save(file)
            kept.save(file, {"protocol": protocol.fingerprint})
        codes[name] = kept
    encoded = time.perf_counter()
    queries, database = codes[part], codes[part if own else "database"]
    scores = evaluate(
        queries,
        source.labels[queries.ids],
        database,
        source.labels[database.ids],
        topk=topk,
        leave_one_out=own,
        progress=sys.stderr.isatty(),
        **options,
    )
    ending = "" if part == "query" else f"_{part}"
    content = {
        "run": str(folder),
        "part": part,
        "file": f"scores{ending}.json",
        "per_query": f"per_query{ending}.npz",
        **summary(scores),
        "l_q": float(queries.metadata["l_q"]),
        "left_out": len(asked) - len(queries),
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "source": {"name": source.name, "fingerprint": protocol.source_fingerprint},
        "model": stamp["model"],
        "config": config.model_dump(mode="json"),
        "versions": versions(),
        "seconds": {
            "encoding": round(encoded - started, 3),
            "scoring": round(time.perf_counter() - encoded, 3),
        },
    }
    with replacing(folder / content["file"]) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")
    with replacing(folder / content["per_query"]) as temporary, open(temporary, "wb") as handle:
        arrays: dict[str, Any] = {"rows": queries.ids, **scores.per_query}
        np.savez(handle, **arrays)
    return content, scores


def _kept(file: Path, stamp: dict[str, str], count: int) -> Codes | None:
    """Codes of an earlier evaluation, if the same model made them of the same split; with no image left out."""
    try:
        codes = Codes.load(file)
        named = Items.load(file, codes.ids, len(codes))
    except CodesError:
        return None
    same = all(codes.metadata.get(key) == value for key, value in stamp.items())
    return codes if same and named is not None and len(codes) == count and "l_q" in codes.metadata else None
