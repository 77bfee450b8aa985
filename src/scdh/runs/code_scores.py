"""Scores of a run's codes, written into its folder with all they rest on. Needs no torch."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scdh.codes import Codes
from scdh.evaluation import Scores, evaluate
from scdh.files import replacing
from scdh.versions import versions

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.data.protocol import Protocol
    from scdh.data.source import Source
    from scdh.runs.encoding import Taught

AT = (1, 10, 100, 500, 1000)


def score_codes(
    folder: Path,
    config: "RunConfig",
    source: "Source",
    protocol: "Protocol",
    queries: Codes,
    database: Codes,
    part: str = "query",
    topk: int | None = None,
    options: dict[str, Any] | None = None,
    taught: "Taught | None" = None,
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
    ending = ("" if part == "query" else f"_{part}") + of_student(taught)
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


def of_student(taught: "Taught | None") -> str:
    return "_student" if taught == "student" else ""


def summary(scores: Scores) -> dict[str, Any]:
    """Scores with their definition and precision at some k, ready for JSON."""
    ks = [k for k in AT if k <= scores.definition["database"]]
    curve = {str(k): float(p) for k, p in zip(ks, scores.precision_at_k(ks), strict=True)}
    return {**scores.to_dict(), "precision_at_k": curve}
