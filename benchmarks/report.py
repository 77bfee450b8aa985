"""Results are stored as JSON, so that one section can be run again alone; RESULTS.md is generated from it."""

import json
import os
import platform
from dataclasses import asdict
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.timing import Row, Table, cell
from scdh.experiments.pages.markdown import markdown_table
from scdh.storage.files import replacing

# In the order of the report; the keys are the values of ``--only``.
SECTIONS = {
    "search": "Exact search against faiss",
    "first": "First searches against faiss",
    "quantised": "Search by a product quantiser against faiss",
    "radius": "Near neighbours: tables against the scan and against faiss",
    "evaluation": "Evaluation against the argsort way",
    "cost": "The unary loss against pairs and triplets",
    "encode": "Photos to codes against eager torch",
    "serve": "The service under load",
    "scale": "Many codes",
}
# Headings by which curves find their rows.
BATCH, SINGLE = "Search of many queries", "Search of one query"
WITHIN = "Everything within 2 bits"
NEAREST = "The 10 nearest, when they are near"
AGAINST, GROWTH = "Evaluation", "Evaluation as the database grows"
FIRST_CALL = "Evaluation in a fresh process"
PER_STEP, PER_EPOCH = "Cost of a step as the batch grows", "Cost of an epoch as the data grow"
FIGURES = {
    "search": "search_speed.png",
}

# By section, then by processor: what was measured there last.
Results = dict[str, dict[str, dict[str, Any]]]


def machine() -> str:
    """Processor and versions, on which the numbers depend."""
    model, flags = platform.processor() or platform.machine(), ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
        fields = {name.strip(): value.strip() for name, value in fields.items()}
        model, flags = fields.get("model name", model), fields.get("flags", "")
    except OSError:
        pass  # other systems have no such file; the short name is enough
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "neither AVX-512 nor AVX2 seen"
    vectors += " with vector popcount" if "avx512_vpopcntdq" in flags else ""
    if other := os.environ.get("NUMBA_CPU_NAME"):  # stands in for a processor that is not at hand
        level = os.environ.get("FAISS_SIMD_LEVEL")
        vectors += f", our kernels compiled for {other}" + (f", faiss held to {level}" if level else "")
    packages = ("numpy", "numba", "faiss-cpu", "torch", "openvino", "scdh")
    versions = ", ".join(f"{name} {_version(name)}" for name in packages)
    return f"{model}, {os.cpu_count()} cores, {vectors}; Python {platform.python_version()}, {versions}"


def load(folder: Path) -> Results:
    path = folder / "results.json"
    return json.loads(path.read_text()) if path.exists() else {}


def processor(about: str) -> str:
    """The processor's name and vectors in the text of ``machine``, without the versions of programs."""
    return about.partition(";")[0]


def keep(folder: Path, section: str, tables: list[Table], threads: int, quick: bool) -> Results:
    """Replace one section of this processor by a new run, and write the file."""
    results = load(folder)
    about = machine()
    for runs in results.values():  # a table that had its place in another section
        earlier = runs.get(processor(about), {"tables": []})
        earlier["tables"] = [old for old in earlier["tables"] if old["heading"] not in {new.heading for new in tables}]
    results.setdefault(section, {})[processor(about)] = {
        "when": date.today().isoformat(),
        "machine": about,
        "threads": threads,
        "quick": quick,
        "tables": [asdict(table) for table in tables],
    }
    results = {name: results[name] for name in SECTIONS if name in results}
    with replacing(folder / "results.json") as path:
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return results


def rows_of(results: Results, section: str, heading: str) -> list[Row]:
    """The rows of one table of the newest run; none if it has not been measured."""
    runs = results.get(section, {}).values()
    tables = max(runs, key=lambda run: run["when"])["tables"] if runs else []
    return next((table["rows"] for table in tables if table["heading"] == heading), [])


def write(folder: Path, results: Results, figures: Path) -> str:
    text = (
        "# Benchmarks\n\nMade by `make bench`, and never typed. Speed is a ratio to a named rival in the same run and "
        "process, with the same threads and data, after results were compared; times are medians of several turns. "
        "Absolute figures only say what machine it was. Each processor keeps its last run; figures show the newest.\n"
    )
    for name, runs in results.items():
        text += f"\n## {SECTIONS[name]}\n"
        if name in FIGURES and (figures / FIGURES[name]).exists():
            where = os.path.relpath(figures / FIGURES[name], folder)
            text += f"\n![{SECTIONS[name]}]({Path(where).as_posix()})\n"
        for one, run in runs.items():
            quick = " A quick run with few turns." if run["quick"] else ""
            level = "###"
            if len(runs) > 1:
                text, level = f"{text}\n### {one}\n", "####"
            text += f"\n{run['when']}: {run['machine']}; {run['threads']} threads.{quick}\n"
            for table in run["tables"]:
                heading = f"{level} {table['heading']}\n\n" if len(run["tables"]) > 1 else ""
                text += f"\n{heading}{table['about']}\n\n{markdown(table['rows'])}\n"
    with replacing(folder / "RESULTS.md") as path:
        path.write_text(text)
    return text


def markdown(rows: list[Row]) -> str:
    columns = list(rows[0])
    texts = [n for n, name in enumerate(columns) if isinstance(rows[0][name], str)]
    return markdown_table(columns, [[cell(row[name]) for name in columns] for row in rows], left=texts)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
