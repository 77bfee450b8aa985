"""Runs the studies of a reproduction with :func:`compare_methods`, and keeps their results by fingerprint.

A study has a folder ``studies/<name>-<fingerprint>``. The fingerprint covers its settings, its data and the code
that its numbers depend on. Lengths and seeds are not part of it, so that another seed computes only what is missing.
"""

import ast
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
from scdh.experiments.compare.grid import Cell
from scdh.experiments.compare.results import RESULTS_FILE, CellResult, ComparisonResults
from scdh.experiments.compare.run import compare_methods
from scdh.experiments.reproduce.scale import Scale, Study
from scdh.progress import count_progress, hidden_progress
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.storage.checksums import json_checksum
from scdh.storage.json_files import read_table, write_table

# What the scores of a run depend on, below src/scdh; files of single methods are added by name.
CODE = ("codes", "data", "losses", "metrics", "nets", "training", "methods/base.py", "evaluation.py")
TIMES_FILE = "times.json"


@dataclass
class Work:
    """One study with its folder, the cells that are left, and the seconds that these should take."""

    study: Study
    source: Source
    folder: Path
    left: list[Cell]
    seconds: float


@dataclass
class Reproduced:
    """The results of a reproduction so far.

    Args:
        scale: its scale.
        out: its folder.
        work: study by name, also those that are not finished.
        results: study by name → its comparison, as far as it is finished.
    """

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
        """The runs of a study, to look into."""
        work = self.work[name]
        return CellRunner(work.source, work.folder, cache=self.out / "features", known=work.study.grid.known)

    def kept(self, name: str, studies: Sequence[str], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``compute`` gives, from ``out/computed`` if it was computed before from the same studies and code."""
        depends = [
            {"folder": self.work[study].folder.name, "cells": sorted(cell.cell for cell in self.results[study].cells)}
            for study in studies
        ]
        key = json_checksum({"studies": depends, "code": code_fingerprint(("experiments/reproduce",))})[-8:]
        file = self.out / "computed" / f"{name}-{key}.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_table(file, compute())
        return read_table(file, "figures of a reproduction", "delete it, and they are computed again")


def cells_of(results: ComparisonResults, method: str, bits: int | None = None) -> list[CellResult]:
    """The scored runs of a method (of its teacher, if it has one), by seed."""
    found = [cell for cell in results.cells if cell.method == method and not cell.student and cell.failed is None]
    return sorted((cell for cell in found if bits in (None, cell.bits)), key=lambda cell: cell.seed)


def plan_work(scale: Scale, studies: Sequence[Study], out: Path) -> Reproduced:
    """Which runs of the studies are left, and how long they should take."""
    reproduced = Reproduced(scale, out)
    times = _times(out)
    sources: dict[str, Source] = {}
    for study in studies:
        grid = study.grid
        first = grid.config(grid.methods[0], grid.bits[0], grid.seeds[0], grid.settings or {})
        key = first.data.model_dump_json(include={"source", "root"})
        source = sources.setdefault(key, source_of(first) if key not in sources else sources[key])
        folder = out / "studies" / f"{study.name}-{_fingerprint(study, first, source, scale)}"
        cells = [] if (done := _finished(folder, study)) is not None else grid.cells(source)
        if done is not None:
            reproduced.results[study.name] = done
        runner = CellRunner(source, folder, cache=out / "features", known=grid.known)
        left = [cell for cell in cells if not runner.is_trained(cell) or not runner.is_scored(cell)]
        known = times.get(_kind(study), scale.run_seconds)
        reproduced.work[study.name] = Work(study, source, folder, left, len(left) * known)
    return reproduced


def run_work(reproduced: Reproduced, notify: Callable[[str], None] = lambda _: None) -> None:
    """Run what is left of all studies; ``reproduced`` receives their results. A study that fails is reported."""
    left = {name: work for name, work in reproduced.work.items() if name not in reproduced.results}
    total = sum(len(work.left) for work in left.values())
    with count_progress(total, "runs of all studies", "runs") as advance:
        for name, work in left.items():
            started = time.monotonic()
            try:
                with hidden_progress():
                    reproduced.results[name] = compare_methods(
                        work.study.grid,
                        work.source,
                        work.folder,
                        cache=reproduced.out / "features",
                        find_rates=reproduced.scale.trials,
                        after_run=lambda: advance(1),
                    )
            except ScdhError as error:
                notify(f"{name} was left out: {error}")
                continue
            if work.left:
                _keep_time(reproduced.out, _kind(work.study), (time.monotonic() - started) / len(work.left))
                work.left, work.seconds = [], 0.0


def _finished(folder: Path, study: Study) -> ComparisonResults | None:
    """The results of a study if nothing is left to do; those of more methods, lengths or seeds are not taken."""
    if not (folder / RESULTS_FILE).exists():
        return None
    results = ComparisonResults.read(folder)
    grid = study.grid
    is_same = (results.methods, results.bits, results.seeds) == (list(grid.methods), list(grid.bits), list(grid.seeds))
    return results if is_same and not results.missing else None


def _fingerprint(study: Study, config: RunConfig, source: Source, scale: Scale) -> str:
    data = config.model_dump(mode="json", exclude={"seed", "method"})
    for key in ("source", "root"):  # a path is not the data
        data["data"].pop(key)
    methods = [f"methods/{name}.py" for name in sorted(study.grid.methods)]
    content = {
        "settings": data,
        "given": {key: value for key, value in (study.grid.settings or {}).items() if key.startswith("method.")},
        "methods": study.grid.method_settings or {},
        "preset": study.grid.preset,
        "trials": scale.trials,
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
    return f"{study.role.stands_for} {len(study.grid.methods) > 1}"


def _times(out: Path) -> dict[str, float]:
    try:
        content = read_table(out / TIMES_FILE, "seconds of runs", "delete it")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: value for name, value in content.items() if isinstance(value, float)}


def _keep_time(out: Path, kind: str, seconds: float) -> None:
    write_table(out / TIMES_FILE, {**_times(out), kind: round(seconds, 3)})


def run_folder(reproduced: Reproduced, study: str, cell: CellResult) -> RunFolder:
    """The folder of a run."""
    return RunFolder(reproduced.work[study].folder / "cells" / cell.cell)


def plan_lines(reproduced: Reproduced) -> list[Mapping[str, Any]]:
    """For ``--plan``: each study with the runs that are left and their seconds."""
    return [
        {"study": name, "runs": len(work.left), "seconds": round(work.seconds, 1), "data": work.study.role.title}
        for name, work in reproduced.work.items()
    ]
