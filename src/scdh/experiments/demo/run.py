"""``scdh demo``: the whole way once on real photos, told by one page: train, encode, index, search, score."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scdh.codes import Codes
from scdh.experiments.demo.comparison import Comparison
from scdh.experiments.demo.neighbours import drawn_queries
from scdh.experiments.demo.report import figures, page
from scdh.experiments.demo.results import per_query, summary
from scdh.experiments.demo.scores import compare
from scdh.files import replacing
from scdh.index import HammingIndex

REPORT = "report.html"


def run_demo(
    data: str, out: Path, bits: tuple[int, ...], seed: int, *, overrides: Mapping[str, Any] | None = None
) -> Path:
    """Compare SCDH with its floors on ``data`` and write report, scores, models and indexes into ``out``.

    A second run in the same folder reuses the trunk's features and replaces the rest. ``overrides`` change the preset.
    """
    _say(f"SCDH, ITQ, LSH and float features on {data}, {' and '.join(map(str, bits))} bits, seed {seed}.")
    found = compare(data, tuple(bits), seed, cache=out / "features", overrides=overrides)
    _say(_lines(found))
    out.mkdir(parents=True, exist_ok=True)
    with found.timed("models and indexes"):
        _keep_models(found, out)
    with found.timed("pictures"):
        drawings = figures(found)
        commands = next_commands(found, out)
        results = summary(found) | {"next": commands}
    with replacing(out / "scores.json") as temporary:
        temporary.write_text(json.dumps(results, indent=1), "utf-8")
    with replacing(out / "per_query.npz") as temporary, open(temporary, "wb") as handle:
        arrays: dict[str, Any] = per_query(found)
        np.savez(handle, **arrays)
    with replacing(out / REPORT) as temporary:
        temporary.write_text(page(found, results, drawings, commands), "utf-8")
    _say(f"Done in {sum(found.seconds.values()):.0f} s ({sum(found.cpu_seconds.values()):.0f} s of CPU time).")
    return out / REPORT


def next_commands(found: Comparison, out: Path) -> list[str]:
    """Commands that work on what the demo wrote; for photos it leaves some query photos to ask with."""
    bits = found.longest().bits
    index, model = out / f"database-{bits}.index", out / f"model-{bits}"
    row = found.protocol.database[0]
    commands = [f"scdh search {index} --row {row}"]
    if found.source.kind == "images":
        folder = out / "queries"
        folder.mkdir(exist_ok=True)
        for position in drawn_queries(found, found.config.seed):
            name = found.label_names[found.query_labels[position]]
            photo = folder / f"{name}.jpg"
            found.source.image(int(found.protocol.query[position])).save(photo, quality=92)
        commands.append(f"scdh search {index} --model {model} {photo} -k 5")
        commands.append("scdh train --data YOUR_PHOTOS/ --bits 32")
    else:
        commands.append("scdh train --data YOUR_VECTORS.npz --bits 32")
    return commands


def _keep_models(found: Comparison, out: Path) -> None:
    """Model folders, and indexes of the database with the names that ``scdh search`` shows."""
    from scdh.data.row_names import RowNames

    found.protocol.save(out / "protocol.json")
    for entry in found.entries:
        if entry.hasher is None or entry.database is None:
            continue
        entry.hasher.save(out / f"model-{entry.bits}")
        rows, path = found.protocol.database, out / f"database-{entry.bits}.index"
        stamp = {"model": entry.hasher.fingerprint()}
        HammingIndex(Codes(entry.database.packed, entry.database.bits, rows, stamp)).save(path)
        RowNames.from_source(found.source, rows).save(path)


def _lines(found: Comparison) -> str:
    return "\n".join(f"  {e.name:<14} {e.bytes:>6,} bytes  MAP {e.scores.map:.3f}" for e in found.entries)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
