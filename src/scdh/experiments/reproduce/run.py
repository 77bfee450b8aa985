"""Runs the studies of a reproduction with :func:`compare_methods`, and keeps their results by fingerprint.

A study has a folder ``studies/<name>-<fingerprint>``. The fingerprint covers its settings, its data and the code
that its numbers depend on. Lengths and seeds are not part of it, so that another seed computes only what is missing.
"""

import ast
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from scdh.config import RunConfig
from scdh.data.source import Source
from scdh.errors import ScdhError
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.results import RESULTS_FILE, CellResult, ComparisonResults
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.compare.tuning import trials_left, values_to_try
from scdh.experiments.reproduce.scale import Scale, Study
from scdh.progress import count_progress, hidden_progress
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.storage.checksums import CHECKSUM, json_checksum
from scdh.storage.files import locked
from scdh.storage.json_files import read_entries, read_table, write_table
from scdh.training.search import RATE

# What the scores of a run depend on, below src/scdh; files of single methods are added by name.
CODE = ("codes", "data", "losses", "metrics", "nets", "training", "methods/base.py", "evaluation.py")
TIMES_FILE = "times.json"
PER_RUN, SPENT = "seconds per run", "processor seconds"  # its tables: by kind of study, and by folder of a study


@dataclass
class Work:
    """One study with its folder, the runs that are left (trials included), and the seconds that these should take."""

    study: Study
    source: Source
    folder: Path
    left: int
    seconds: float


@dataclass
class Reproduced:
    """The results of a reproduction so far."""

    scale: Scale
    out: Path
    work: dict[str, Work] = field(default_factory=dict)
    results: dict[str, ComparisonResults] = field(default_factory=dict)

    def groups(self) -> set[str]:
        """Groups of studies of which at least one has results."""
        return {self.work[name].study.group for name in self.results}

    def values(self, group: str) -> dict[float, ComparisonResults]:
        """Value → results, of the studies that try values of one setting."""
        names = sorted(
            (name for name in self.results if name.startswith(f"{group}=")), key=lambda n: float(n.split("=")[1])
        )
        return {self.work[name].study.value: self.results[name] for name in names}

    def runner(self, name: str) -> CellRunner:
        """The runs of a study, for reading."""
        work = self.work[name]
        return CellRunner(work.source, work.folder, cache=self.out / "features", known=work.study.grid.known)

    def kept(self, name: str, studies: Sequence[str], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of ``compute``, read from ``out/computed`` if it was computed before from the same studies and
        code.
        """
        depends = [
            {"folder": self.work[study].folder.name, "cells": sorted(cell.cell for cell in self.results[study].cells)}
            for study in studies
        ]
        key = json_checksum({"studies": depends, "code": code_fingerprint(("experiments/reproduce",))})[-8:]
        file = self.out / "computed" / f"{name}-{key}.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_table(file, compute())
        remedy = "delete it, and they are computed again"
        content = read_entries(file, "figures of a reproduction", remedy, CHECKSUM)  # no user edits it
        del content[CHECKSUM]
        return content


def cells_of(results: ComparisonResults, method: str, bits: int | None = None) -> list[CellResult]:
    """The scored runs of a method (of its teacher, if it has one), by seed."""
    found = [cell for cell in results.cells if cell.method == method and not cell.student and cell.failed is None]
    return sorted((cell for cell in found if bits in (None, cell.bits)), key=lambda cell: cell.seed)


def usual_seconds(cell: CellResult) -> float | None:
    """Seconds of training by the median epoch, without pauses of the machine and one-time preparation."""
    ends = [0.0, *(seconds for seconds, _ in cell.validation)]
    epochs = [after - before for before, after in itertools.pairwise(ends)]
    return len(epochs) * statistics.median(epochs) if epochs else cell.seconds


def plan_work(scale: Scale, studies: Sequence[Study], out: Path, *, any_seeds: bool = False) -> Reproduced:
    """The runs of the studies that are left, and how long they should take."""
    reproduced = Reproduced(scale, out)
    times = _times(out)
    sources: dict[str, Source] = {}
    for study in studies:
        grid = study.grid
        first = grid.config(grid.methods[0], grid.bits[0], grid.seeds[0], grid.settings or {})
        key = first.data.model_dump_json(include={"source", "root"})
        source = sources.setdefault(key, source_of(first) if key not in sources else sources[key])
        folder = out / "studies" / f"{study.name}-{_fingerprint(study, first, source)}"
        if (done := _finished(folder, study, any_seeds)) is not None:
            reproduced.results[study.name] = done
        left = 0 if done is not None else _runs_left(study, source, folder, out)
        measured = list(times.values())
        seconds = times.get(_kind(study), statistics.fmean(measured) if measured else scale.run_seconds)
        reproduced.work[study.name] = Work(study, source, folder, left, left * seconds)
    return reproduced


def _runs_left(study: Study, source: Source, folder: Path, out: Path) -> int:
    grid = study.grid
    runner = CellRunner(source, folder, cache=out / "features", known=grid.known)
    cells = [cell for cell in grid.cells(source) if not runner.is_trained(cell) or not runner.is_scored(cell)]
    if not study.rates:
        return len(cells)
    return len(cells) + trials_left(grid, source, values_to_try({RATE: study.rates}, grid), folder)


def run_work(reproduced: Reproduced, notify: Callable[[str], None] = lambda _: None) -> None:
    """Run what is left of all studies; ``reproduced`` receives their results. A study that fails is reported."""
    left = {name: work for name, work in reproduced.work.items() if name not in reproduced.results}
    total = sum(work.left for work in left.values())
    with count_progress(total, "runs of all studies", "runs") as advance:
        for name, work in left.items():
            started, processor, runs = time.monotonic(), time.process_time(), 0

            def after_run() -> None:
                nonlocal runs
                runs += 1
                advance(1)

            try:
                with hidden_progress():
                    reproduced.results[name] = compare_methods(
                        work.study.grid,
                        work.source,
                        work.folder,
                        cache=reproduced.out / "features",
                        tuned={RATE: work.study.rates} if work.study.rates else None,
                        find_rates=False,
                        floats=False,
                        after_run=after_run,
                    )
            except ScdhError as error:
                notify(f"{name} was left out: {error}")
                continue
            finally:
                used = time.process_time() - processor
                _keep_time(reproduced.out, work, time.monotonic() - started, used, runs)
            work.left, work.seconds = 0, 0.0


def _finished(folder: Path, study: Study, any_seeds: bool) -> ComparisonResults | None:
    """The results of a study if nothing is left to do, and they have no further methods, lengths or seeds."""
    if not (folder / RESULTS_FILE).exists():
        return None
    results = ComparisonResults.read(folder)
    grid = study.grid
    is_same = (results.methods, results.bits) == (list(grid.methods), list(grid.bits))
    has_seeds = any_seeds or results.seeds == list(grid.seeds)
    return results if is_same and has_seeds and not results.missing else None


def _fingerprint(study: Study, config: RunConfig, source: Source) -> str:
    data = config.model_dump(mode="json", exclude={"seed", "method"})
    for key in ("source", "root"):  # a path is not the data
        data["data"].pop(key)
    methods = [f"methods/{name}.py" for name in sorted(study.grid.methods)]
    content = {
        "settings": data,
        "given": {key: value for key, value in (study.grid.settings or {}).items() if key.startswith("method.")},
        "methods": study.grid.method_settings or {},
        "preset": study.grid.preset,
        "rates": list(study.rates),
        "data": source.fingerprint(),
        "code": code_fingerprint((*CODE, *methods)),
    }
    return json_checksum(content)[-8:]


@cache
def code_fingerprint(parts: tuple[str, ...]) -> str:
    """Checksum of Python files and folders below the package, without comments and docstrings."""
    root = Path(str(resources.files("scdh")))
    files: dict[str, str] = {}
    for part in parts:
        for file in sorted((root / part).rglob("*.py")) if (root / part).is_dir() else [root / part]:
            if file.exists():  # a method of another package has no file here
                files[str(file.relative_to(root))] = ast.dump(_without_docstrings(ast.parse(file.read_bytes())))
    return json_checksum(files)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return tree


def _kind(study: Study) -> str:
    """Studies whose runs take about as long."""
    return f"{study.role.title}: {study.group if len(study.grid.methods) > 1 else study.grid.methods[0]}"


def _times(out: Path, table: str = PER_RUN) -> dict[str, float]:
    try:
        content = read_table(out / TIMES_FILE, "seconds of runs", "delete it").get(table)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    known = content.items() if isinstance(content, dict) else ()
    return {name: value for name, value in known if isinstance(value, float)}


def _keep_time(out: Path, work: Work, seconds: float, used: float, runs: int) -> None:
    """Add the time of some runs of a study, also of those before a stop; ``used``: seconds of processor time."""
    with locked((out / TIMES_FILE).with_suffix(".lock"), wait=True):  # other calls may run other items
        per_run, spent = _times(out), _times(out, SPENT)
        if runs:
            per_run[_kind(work.study)] = round(seconds / runs, 3)
        name = work.folder.name
        spent[name] = round(spent.get(name, 0.0) + used, 1)
        write_table(out / TIMES_FILE, {PER_RUN: per_run, SPENT: spent})


def seconds_spent(reproduced: Reproduced) -> float:
    """Processor time of all studies with results, over all calls of the command."""
    spent = _times(reproduced.out, SPENT)
    return sum(spent.get(reproduced.work[name].folder.name, 0.0) for name in reproduced.results)


def run_folder(reproduced: Reproduced, study: str, cell: CellResult) -> RunFolder:
    """The folder of a run."""
    return RunFolder(reproduced.work[study].folder / "cells" / cell.cell)


def plan_lines(reproduced: Reproduced) -> list[Mapping[str, Any]]:
    """For ``--plan``: each study with the runs that are left and their seconds."""
    return [
        {"study": name, "runs": work.left, "seconds": round(work.seconds, 1), "data": work.study.role.title}
        for name, work in reproduced.work.items()
    ]
