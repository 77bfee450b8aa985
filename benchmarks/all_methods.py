"""Every method on one page: ``python -m benchmarks.all_methods TITLE=FOLDER …`` writes docs/all_methods.md.

Each FOLDER holds a finished `scdh compare`, whose tables are taken as it made them; the page keeps its other parts as
they stand, so that one comparison can be made anew without the folders of the others. Runs that share a machine with
other work say nothing about time, so `--times FOLDER` names a short comparison that ran alone: its milliseconds a step,
times the steps that each run needed, are the seconds of the page, and a table of their own. CIFAR-10 is put beside
published scores (published.json), with the agreement of the two orders. What is written by hand, why an order differs,
is read from all_methods_notes.md.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from scdh.experiments.compare.results import CellResult, ComparisonResults
from scdh.experiments.compare.summary import average
from scdh.experiments.compare.tables import conditions, conditions_table, rows_by_method, score_tables
from scdh.experiments.pages.markdown import escape_markdown, markdown_table
from scdh.files import replacing

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "all_methods.md"
INTRODUCTION = """# Every method, side by side

Made by `python -m benchmarks.all_methods` of finished comparisons (`scdh compare`). What is equal and what is not is
told in [compare.md](compare.md), what each method is in [methods.md](methods.md). Nothing was chosen on queries:
settings come from trials on validation rows, as many for each method, and queries were scored once, after all runs
were trained. One advantage of SCDH is left on frozen photos: its weight α, 0.3, was once taken from grids on validation
rows of these photos, where others keep their published weights; the part with 19 trials for each method is without it.
"""
STEPS_TITLE = "Time of a step"
STEPS_NOTE = (
    "ms a step: with nothing else running on the machine. Seconds of training, and to a validation MAP, are steps of "
    "the runs above times that, as the runs themselves shared the machine."
)


def step_times(times: ComparisonResults) -> dict[str, float]:
    """Seconds of one optimiser step by method, of runs that had the machine to themselves."""
    steps = times.budget.steps[0]
    return {row.method: row.seconds / steps for row in times.rows if row.seconds is not None and row.epochs is not None}


def epochs_to(cell: CellResult, target: float) -> int | None:
    """Epochs until validation MAP was ``target``, where every epoch was validated."""
    if not cell.validation or cell.epochs is None:
        return None
    every = cell.epochs / len(cell.validation)
    return next((round(every * n) for n, (_, score) in enumerate(cell.validation, 1) if score >= target), None)


def time_table(results: ComparisonResults, seconds_of_step: dict[str, float]) -> str:
    """Time of training and to the common validation MAP, from step times of a quiet machine."""
    target, bits, steps = results.target or 0.0, max(results.bits), results.budget.steps[-1]
    rows = []
    for row in (row for row in results.rows if row.bits == bits and not row.student):
        seconds = seconds_of_step.get(row.method)
        if seconds is None or row.epochs is None:
            continue
        cells = [cell for cell in results.cells if cell.method == row.method and cell.bits == bits and not cell.student]
        epochs = [epochs_to(cell, target) for cell in cells]
        mean, _ = average(epochs) if None not in epochs else (None, None)
        to_target = "–" if mean is None else f"{mean * steps / row.epochs * seconds:.1f}"
        rows.append([row.title, f"{1000 * seconds:.1f}", f"{steps * seconds:.1f}", to_target])
    rows.sort(key=lambda cells: float(cells[1]))
    return markdown_table(["method", "ms a step", "training, s", f"to {target:.2f}, s"], rows)


def step_section(times: ComparisonResults) -> str:
    """What a step of each method costs, as a part of its own: the comparisons shared the machine with other work."""
    seconds, bits, rows = step_times(times), max(times.bits), []
    titles = {row.method: row.title for row in times.rows if not row.student}
    fastest = min(seconds.values())
    for method, step in sorted(seconds.items(), key=lambda item: item[1]):
        rows.append([titles[method], f"{1000 * step:.1f}", f"{step / fastest:.2f}"])
    about = f"Short runs with nothing else on the machine: {times.data.name}, {bits} bits, frozen features."
    return f"## {STEPS_TITLE}\n\n{about}\n\n{markdown_table(['method', 'ms a step', 'times the fastest'], rows)}"


def published_table(results: ComparisonResults, published: dict[str, Any]) -> str:
    """Ours beside what others report, and how far the two orders agree."""
    by_method = {row["method"]: row for row in published["rows"]}
    lines, ours, theirs = [], [], []
    for method in rows_by_method(results.rows):
        row = by_method.get(method.method)
        if row is None or method.student:
            continue
        bits = max(int(key) for key in row if key.isdigit())
        mine = method.mean("map", min(bits, max(results.bits)))
        if mine is None:
            continue
        lines.append([method.title, f"{mine:.3f}", f"{row[str(bits)]:.3f}", f"{bits}", row["net"], row["source"]])
        ours.append(mine)
        theirs.append(row[str(bits)])
    columns = ["method", "ours", "published", "bits", "its network", "source"]
    agreement = spearmanr(ours, theirs).statistic
    sources = "; ".join(f"{name}: {text}" for name, text in published["sources"].items())
    return (
        f"{markdown_table(columns, lines, left=(0, 4, 5))}\n\n"
        f"Published: {published['data']}. There whole networks were trained, for tens to hundreds of epochs; ours is "
        f"frozen below one learned layer. Rank correlation (Spearman) of the two columns over {len(lines)} methods: "
        f"{agreement:.2f}. Sources. {sources}."
    )


def read_notes(path: Path) -> dict[str, str]:
    """Text below each ``## name`` of a Markdown file."""
    if not path.exists():
        return {}
    parts = re.split(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    return {name.strip(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def section(title: str, results: ComparisonResults, notes: dict[str, str], times: ComparisonResults | None) -> str:
    """The part of the page about one comparison."""
    parts = [f"## {title}"]
    if notes.get(title):
        parts.append(notes[title])
    map_table = score_tables(results)[0]
    had = conditions_table(results)
    dropped = {n for n, name in enumerate(had.columns) if name == "training" or name.startswith("to ")}
    for table, left_out in ((map_table, set()), (had, dropped)):
        columns = [name for n, name in enumerate(table.columns) if n not in left_out]
        lines = [
            [
                f"**{text}**" if (line, n) in table.highlighted else escape_markdown(text)
                for n, text in enumerate(texts)
                if n not in left_out
            ]
            for line, texts in enumerate(table.lines)
        ]
        parts += [f"### {table.title}", markdown_table(columns, lines)]
    if times is not None:
        parts += ["### Time", STEPS_NOTE, time_table(results, step_times(times))]
    if "cifar10" in results.data.name and not results.data.multi_label and results.network.get("freeze"):
        published = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
        parts += ["### Beside published scores", published_table(results, published)]
    told = conditions(results)
    shown = ("Protocol", "Budget", "Network", "Failed runs", "Changed after queries were scored")
    parts.append("\n".join(f"- **{key}.** {escape_markdown(told[key])}" for key in shown if key in told))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="*", metavar="TITLE=FOLDER", help="a heading, and the folder of a comparison")
    parser.add_argument("--times", type=Path, help="folder of a short comparison that ran with nothing else")
    options = parser.parse_args()
    notes = read_notes(HERE / "all_methods_notes.md")
    times = None if options.times is None else ComparisonResults.read(options.times)
    sections = {title: f"## {title}\n\n{text}" for title, text in read_notes(PAGE).items()}
    for text in options.folders:
        title, _, folder = text.partition("=")
        sections[title] = section(title, ComparisonResults.read(Path(folder)), notes, times)
    if times is not None:
        sections[STEPS_TITLE] = step_section(times)
    with replacing(PAGE) as temporary:
        temporary.write_text("\n\n".join([INTRODUCTION.strip(), *sections.values()]) + "\n", encoding="utf-8")
    print(f"{PAGE.name} has {len(sections)} comparisons, {len(options.folders)} of them made anew.")


if __name__ == "__main__":
    main()
