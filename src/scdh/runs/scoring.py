"""Score a run folder: codes of its queries and database (kept for reuse), scores, and everything they rest on."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scdh.codes import Codes
from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.errors import CodesError, DataError
from scdh.evaluation import Scores
from scdh.methods.registry import method_class
from scdh.runs.code_scores import of_student, score_codes
from scdh.runs.encoding import Taught, encode_part, has_student, load_model, run_config, run_protocol
from scdh.runs.protocol import source_of

USUAL_TOPK = {"nuswide21": 5000}


Encode = Callable[..., tuple[Codes, RowNames]]


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
    fitted = not method_class(config.method.name).learns_by_gradient and taught is None
    hasher = None if fitted else load_model(folder, taught)
    source = source_of(config) if source is None else source
    protocol = run_protocol(folder, source)
    if not topk_given:
        topk = USUAL_TOPK.get(config.data.source)
    if hasher is None:
        return _score_fitted(folder, config, source, protocol, part, topk, options)
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
        file = folder / "codes" / f"{name}{of_student(taught)}.codes"
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


def _score_fitted(
    folder: Path,
    config: RunConfig,
    source: Source,
    protocol: Protocol,
    part: str,
    topk: int | None,
    options: dict[str, Any],
) -> tuple[dict[str, Any], Scores]:
    """A method that was fitted at once (a cell of a comparison) left codes and no network."""
    if part != "query":
        raise DataError(f"The run in {str(folder)!r} was fitted at once and has codes of queries and database only.")
    queries, database = (Codes.load(folder / "codes" / f"{name}.codes") for name in ("query", "database"))
    extra = {"network": None}
    return score_codes(folder, config, source, protocol, queries, database, part, topk, options, None, extra)


def _kept(file: Path, stamp: dict[str, str], count: int) -> Codes | None:
    """Codes of an earlier evaluation, if the same model made them of the same split; with no image left out."""
    try:
        codes = Codes.load(file)
        named = RowNames.load(file, codes.ids, len(codes))
    except CodesError:
        return None
    same = all(codes.metadata.get(key) == value for key, value in stamp.items())
    return codes if same and named is not None and len(codes) == count and "l_q" in codes.metadata else None
