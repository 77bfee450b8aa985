"""Every method on one page: ``python -m research.all_methods TITLE=FOLDER …`` writes docs/all_methods.md.

Each FOLDER holds a finished `scdh compare`, whose tables are taken as it made them; the page keeps its other parts as
they stand, so that one comparison can be recomputed without the folders of the others. Runs that share a machine with
other work say nothing about time, so `--times FOLDER` names a comparison of the same data and settings with one seed
that ran alone: the seconds of its epochs are those of the page, also of parts that are not recomputed. The conclusions
are written by hand, in all_methods_notes.md: the text of each part up to its experiments.
"""

import argparse
import re
import statistics
import textwrap
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from scdh.experiments.compare.conditions import conditions
from scdh.experiments.compare.results import CellResult, ComparisonResults
from scdh.experiments.compare.tables import conditions_table, score_tables
from scdh.experiments.pages.markdown import escape_markdown, markdown_table
from scdh.storage.files import replacing

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "all_methods.md"
INTRODUCTION = """# Every method, side by side

This page is for people who choose a method, and for researchers who want to see a comparison under equal conditions.
It has what the SCDH paper does not cover: more methods, and shop photos. The paper's tables are in
[results.md](results.md). [methods.md](methods.md) describes the methods, and [compare.md](compare.md) says what is
equal for all of them.

The tables were made by `scdh compare` and `python -m research.all_methods`. The experiments behind the conclusions
are in [research/all_methods_notes.md](../research/all_methods_notes.md).

How to read the tables:

- Settings come from trials on validation rows, with the same number of trials for each method. Each comparison scored
  its queries once, after all its runs had been trained.
- Scores of most of these queries were known from earlier comparisons with older code. Later changes to the code were
  decided on validation rows or by reading the sources.
- SCDH keeps one advantage: its weight α was chosen on validation rows of these photos, while the other methods have
  their published weights.
- MIRFLICKR is 20,000 of the 25,000 photos, at 128². The shop photos come with a package (`scdh datasets groceries`).
- DQN and Cls-onehot do not rank by Hamming distance. DQN ranks by inner products with a codebook, Cls-onehot by the
  class probabilities of the query, with one bit per class.
"""
SIDE_TITLE = "All data side by side"
OWN_LENGTH = re.compile(r" \(\d+ bits\)$")
MANY_METHODS = 20  # of a part whose places are counted; the others have a few methods each
WIDTH = 120  # of lines of text
STEPS_NOTE = (
    "Seconds of one run of each method at the longest codes, with one thread and nothing else on the machine; to a "
    "validation MAP: by the epochs that each of the runs above needed."
)

ALONE_NOTE = (
    "Seconds of one run of each method, one after the other with one thread and nothing else on the machine, at the "
    "usual learning rate; to a validation MAP: of the same run, by whole epochs."
)


def quiet_seconds(times: ComparisonResults) -> dict[str, list[float]]:
    """Method → seconds of training until the end of each epoch, of runs that had the machine to themselves."""
    cells = [cell for cell in times.cells if cell.bits == max(times.bits) and cell.validation and not cell.student]
    return {cell.method: [seconds for seconds, _ in cell.validation] for cell in cells}


def epochs_to(cell: CellResult, target: float) -> int | None:
    """Epochs until validation MAP was ``target``; every epoch is validated."""
    return next((n for n, (_, score) in enumerate(cell.validation, 1) if score >= target), None)


def time_table(results: ComparisonResults, quiet: dict[str, list[float]]) -> str:
    """Time of training and to the common validation MAP, by the seconds that epochs take on a quiet machine."""
    target, bits = results.target or 0.0, max(results.bits)
    rows = []
    for row in (row for row in results.rows if row.bits == bits and not row.student and row.method in quiet):
        seconds = quiet[row.method]
        cells = [cell for cell in results.cells if cell.method == row.method and cell.bits == bits and not cell.student]
        epochs = [epochs_to(cell, target) for cell in cells]
        reached = [seconds[epoch - 1] for epoch in epochs if epoch is not None]
        to_target = f"{statistics.fmean(reached):.1f}" if len(reached) == len(cells) else "–"
        rows.append([row.title, f"{seconds[-1]:.1f}", to_target])
    rows.sort(key=lambda cells: float(cells[1]))
    return markdown_table(["method", "training, s", f"to {target:.2f}, s"], rows)


def with_times(text: str, times: list[ComparisonResults]) -> str:
    """A part of the page, whose comparison is not at hand, with times of runs of the same data that ran alone; both
    columns are theirs, at the validation MAP that the part has."""
    before, heading, rest = text.partition("### Time\n")
    target = re.search(r"\| to (\d\.\d+), s \|", rest)
    if not heading or target is None:
        return text
    words = " ".join(rest.split())
    own = [one for one in times if f"Fingerprint of the data {one.data.fingerprint};" in words and _fits(one, words)]
    if not own:
        return text
    alone = own[0].model_copy(update={"target": float(target[1])})
    after = rest[re.search(r"^(### |- \*\*)", rest, flags=re.M).start() :]  # type: ignore[union-attr]
    return f"{before}{heading}\n{ALONE_NOTE}\n\n{time_table(alone, quiet_seconds(alone))}\n\n{after}"


def _fits(alone: ComparisonResults, text: str) -> bool:
    """Whether a part of the page has these epochs and steps."""
    return conditions(alone)["Budget"] in text


def scores_on_page(text: str) -> tuple[str, dict[str, float]]:
    """Longest codes of a part of the page, such as ``48 bits``, and MAP of each method there, by its title.

    The title is without a length that is the method's own: that is another one for other numbers of classes.
    """
    _, _, rest = text.partition("### MAP\n")
    lines = [line.strip("| ").split(" | ") for line in rest.partition("###")[0].splitlines() if line.startswith("| ")]
    if not lines:
        return "", {}
    place = max(n for n, name in enumerate(lines[0]) if name.endswith(" bits"))
    scored = [(OWN_LENGTH.sub("", line[0]), line[place].strip("*").split(" ")[0]) for line in lines[1:]]
    return lines[0][place], {title: float(score) for title, score in scored if score != "–" and "floats" not in title}


def side_by_side(sections: dict[str, str], note: str | None) -> str:
    """MAP of the methods that the first large part of every data set has, sorted by their mean place there."""
    parts: dict[str, tuple[str, dict[str, float]]] = {}
    for title, text in sections.items():
        bits, scores = scores_on_page(text)
        if len(scores) >= MANY_METHODS:
            parts.setdefault(title.partition(",")[0], (bits, scores))
    if not parts:
        return ""
    common = sorted(set.intersection(*(set(scores) for _, scores in parts.values())))
    maps = np.array([[scores[method] for _, scores in parts.values()] for method in common])
    places = rankdata(-maps, axis=0)
    rows = [
        [common[n], *(f"{m:.3f} ({p:g})" for m, p in zip(maps[n], places[n], strict=True)), f"{places[n].mean():.1f}"]
        for n in np.argsort(places.mean(axis=1), kind="stable")
    ]
    columns = ["method", *(f"{title}, {bits}" for title, (bits, _) in parts.items()), "mean place"]
    about = f"MAP, and in brackets the place among the {len(common)} methods that all of these data sets have."
    return "\n\n".join([f"## {SIDE_TITLE}", *([note] if note else []), about, markdown_table(columns, rows)])


def read_notes(path: Path) -> dict[str, str]:
    """Text below each ``## name`` of a Markdown file."""
    if not path.exists():
        return {}
    parts = re.split(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    return {name.strip(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def conclusions(notes: dict[str, str]) -> dict[str, str]:
    """The notes of each part up to their first heading, which begins the experiments."""
    return {title: re.split(r"^### ", text, maxsplit=1, flags=re.M)[0].strip() for title, text in notes.items()}


def wrapped(page: str) -> str:
    """The page with lines of text of at most ``WIDTH`` characters; tables and code stay as they are."""
    blocks = page.split("\n\n")
    return "\n\n".join("\n".join(_wrapped_line(line) for line in block.split("\n")) for block in blocks)


def _wrapped_line(line: str) -> str:
    if len(line) <= WIDTH or line.startswith("|"):
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def with_note(text: str, note: str | None) -> str:
    """A part of the page, whose tables stay, with what is written by hand today."""
    tables = text[text.index("### ") :] if "### " in text else text
    return text if note is None else f"{note}\n\n{tables}"


def section(title: str, results: ComparisonResults, notes: dict[str, str], times: list[ComparisonResults]) -> str:
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
    for alone in times:
        if (alone.data.fingerprint, alone.budget) == (results.data.fingerprint, results.budget):
            parts += ["### Time", STEPS_NOTE, time_table(results, quiet_seconds(alone))]
    stated = conditions(results)
    shown = ("Protocol", "Budget", "Network", "Failed runs", "Changed after queries were scored")
    parts.append("\n".join(f"- **{key}.** {escape_markdown(stated[key])}" for key in shown if key in stated))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="*", metavar="TITLE=FOLDER", help="a heading, and the folder of a comparison")
    parser.add_argument("--times", type=Path, nargs="+", default=[], help="folders of comparisons that ran alone")
    parser.add_argument("--target", type=float, help="validation MAP to time runs to (default: the folder's)")
    options = parser.parse_args()
    notes = conclusions(read_notes(HERE / "all_methods_notes.md"))
    times = [ComparisonResults.read(folder) for folder in options.times]
    kept = {title: with_times(with_note(text, notes.get(title)), times) for title, text in read_notes(PAGE).items()}
    sections = {title: f"## {title}\n\n{text}" for title, text in kept.items()}
    for text in options.folders:
        title, _, folder = text.partition("=")
        results = ComparisonResults.read(Path(folder))
        if options.target is not None:
            results = results.model_copy(update={"target": options.target})
        sections[title] = section(title, results, notes, times)
    sections.pop(SIDE_TITLE, None)
    first = [text for text in (side_by_side(sections, notes.get(SIDE_TITLE)),) if text]
    with replacing(PAGE) as temporary:
        page = "\n\n".join([INTRODUCTION.strip(), *first, *sections.values()])
        temporary.write_text(f"{wrapped(page)}\n", encoding="utf-8")
    print(f"{PAGE.name} has {len(sections)} comparisons, {len(options.folders)} of them recomputed.")


if __name__ == "__main__":
    main()
