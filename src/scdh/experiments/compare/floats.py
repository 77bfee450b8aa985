"""The float vectors behind the codes as a line of a comparison: ranked by cosine, same rows, same definitions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.grid import Cell
from scdh.experiments.compare.results import FloatRow
from scdh.experiments.compare.summary import average
from scdh.runs.floats import score_floats, why_no_floats
from scdh.storage.json_files import read_entries, write_table


def float_row(cells: Sequence[Cell], runner: CellRunner) -> FloatRow | None:
    """Means over the seeds; None where no run has left vectors to rank, such as of networks that were tuned.

    Scores are kept in ``floats/<seed>.json`` of the comparison: they are the same for every method and length.

    Args:
        cells: the runs of the comparison; one that is done is taken of each seed.
        runner: has run them.
    """
    by_seed: dict[int, dict[str, Any]] = {}
    for cell in cells:
        if cell.seed not in by_seed and (scores := float_scores(cell, runner)) is not None:
            by_seed[cell.seed] = scores
    if not by_seed:
        return None
    every = list(by_seed.values())
    mean, deviation = average(scores["map"] for scores in every)
    assert mean is not None  # every seed has a MAP
    return FloatRow(width=every[0]["width"], bytes=every[0]["bytes"], map=mean, map_std=deviation, seeds=list(by_seed))


def float_scores(cell: Cell, runner: CellRunner) -> dict[str, Any] | None:
    """Scores of the vectors behind a run: those that were kept for its seed, else they are computed and kept."""
    run = runner.run_of(cell)
    if not run.is_finished:
        return None
    protocol = run.protocol(runner.source)
    file = runner.folder / "floats" / f"{cell.seed}.json"
    if file.exists():
        remedy = "delete it, and they are computed again"
        content = read_entries(file, "the scores of the floats", remedy, "protocol", "floats")
        is_same = content["protocol"] == protocol.fingerprint
        if is_same and runner.options.agree_with(content["floats"]["definition"], runner.source.name):
            return dict(content["floats"])
    hasher = runner.model(run)
    if why_no_floats(hasher, len(protocol.database)) is not None:
        return None
    of_rows = partial(runner.features.of_rows, hasher)
    scores = score_floats(runner.source, protocol.query, protocol.database, of_rows, runner.options).to_dict()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_table(file, {"protocol": protocol.fingerprint, "floats": scores})
    return scores
